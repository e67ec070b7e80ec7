// The interface of a connector: its pipeline options, checks for contradictory options, capabilities, and how its source and sink open.
// Runs, pipelines and commands look connectors up in the registry (connectors.ts) and never refer to one by name.

import type { TSchema } from 'typebox';
import type { FileFormat } from '../../core/file-format.ts';
import type { Log } from '../../core/log.ts';
import type { InputFormat, RunOutput } from '../../engine/stream-spec.ts';
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import type { Chunks } from '../../io/source/byte-source.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { Transport } from './transport.ts';

/** The source, sink or dead letters of a pipeline. `type` is the name of the connector. */
export interface End {
  readonly type: string;
}

/**
 * What a source supplies: `bytes` of named inputs in a format, `rows` of a query, an endless stream of `records`
 * committed by offset, or `requests` that the service receives.
 */
export type Reads = 'bytes' | 'rows' | 'records' | 'requests';

/** What a sink writes: `bytes` under a name, `rows` of a table, or `records`, which cannot be retracted. */
export type Writes = 'bytes' | 'rows' | 'records';

export interface Capabilities {
  /** null: the connector has no source. */
  readonly reads: Reads | null;
  /** null: the connector has no sink. */
  readonly writes: Writes | null;
  /** Kinds of sources whose predictions this sink accepts. */
  readonly takes: readonly Reads[];
  /**
   * Whether the sink delivers exactly once: it stores answers to records together with their offsets, and stores each
   * upload once.
   */
  readonly transact: boolean;
  /** Whether the sink can withhold all predictions of an input until the run decides to publish them. */
  readonly withhold: boolean;
}

/** The schemas of a connector's source, sink and dead letters. */
export interface EndSchemas {
  readonly source?: TSchema;
  readonly sink?: TSchema;
  readonly deadLetter?: TSchema;
}

/** Reports a contradiction at the configuration key that must change. */
export type Say = (path: string, message: string) => void;

/** The parts of a pipeline that a connector's checks may read. */
export interface LintedPipeline {
  readonly source: End;
  readonly sink: End;
  readonly dead_letter?: End | undefined;
  readonly score: { readonly passthrough?: readonly string[] | '*' | undefined };
  readonly on_invalid: string;
  /** What the source supplies. */
  readonly reads: Reads;
  /** What the sink writes. */
  readonly writes: Writes;
  /** Whether the source may have several inputs. */
  readonly several: boolean;
}

/** The context of a run whose predictions go to rows or records rather than to a stream of bytes. */
export interface SinkRun<P extends object = object> {
  readonly manifest: Manifest;
  readonly passthrough: readonly string[] | '*';
  readonly interpretation: InterpretationSpec | null;
  /** The whole pipeline: a connector may have its own section in it. */
  readonly pipeline: P;
  readonly log: Log;
  /** Starts hashing the input. Call the returned function for the digest after all input was read. */
  digestInput(): () => string;
}

/** An upload whose predictions a sink stores exactly once. */
export interface UploadRun<P extends object = object> {
  readonly pipeline: P;
  /** Unique ID of the upload, shared by all its attempts. */
  readonly id: string;
  /** Trace context that the prediction records continue; null: none. */
  readonly trace: string | null;
  /** Called before an attempt skips what an earlier attempt wrote. An error ends the attempt. */
  beforeResume(): Promise<void>;
}

export interface OpenRows {
  readonly chunks: Chunks;
  readonly input: InputFormat;
  bytesRead(): number;
  close(): Promise<void>;
}

export interface PredictionSink extends ByteSink {
  /** The format of the predictions written to this sink. */
  readonly output: RunOutput;
  /** Ends a sink that receives the predictions of all inputs of a run. */
  close?(): Promise<void>;
}

/** Lists the names that match a pattern, through the transport that serves it. @throws SluiceError input_not_found */
export type Matching = (pattern: string) => Promise<string[]>;

/** Optional methods are absent if the connector lacks the capability that needs them. */
export interface Connector {
  readonly capabilities: Capabilities;
  /** The connector's page in docs/. */
  readonly page: string;
  options: EndSchemas;
  /**
   * Reports contradictions that the schemas cannot express. Called for every pipeline, also for those without this
   * connector.
   */
  lint?(pipeline: LintedPipeline, say: Say): Promise<void>;
  /** Risks of a valid pipeline that has this connector as source or sink. */
  warnings?(pipeline: object): Promise<string[]>;
  /** Rejects a pipeline that this process cannot run. @throws SluiceError */
  check?(pipeline: object): Promise<void>;
  /** The name of a source or sink in summaries and messages. */
  nameOf(end: End): string;
  /** For `bytes`: the format of a source or sink; null: it depends on the names of the inputs. */
  formatOf?(end: End): FileFormat | null;
  /** For `bytes`: whether the path of a source is a pattern. */
  isPattern?(source: End): boolean;
  /**
   * Whether this connector's transport reads and writes bytes of this name. A connector may have a transport but no
   * source or sink.
   */
  serves?(name: string): boolean;
  transport?(): Promise<Transport>;
  /**
   * For `bytes`: names of the inputs, sorted. `choose` selects inputs among the names that match a pattern. @throws
   * SluiceError input_not_found | usage
   */
  inputs?(source: End, choose: (names: readonly string[]) => string[], matching: Matching): Promise<readonly string[]>;
  /**
   * For `bytes`: the path of the output, which may contain `{name}`, and the format if neither the name nor the options
   * define it.
   */
  output?(sink: End): { path: string; otherwise: FileFormat };
  /** For `rows`: why an interrupted run from this source cannot be resumed; null: it can. */
  resumeObstacle?(source: End): string | null;
  /** For `rows`. @throws SluiceError */
  openRows?(source: End, run: Pick<SinkRun, 'manifest' | 'passthrough'>): Promise<OpenRows>;
  /** For `rows` and `records`. A sink of records receives the predictions of all inputs. @throws SluiceError */
  openSink?(sink: End, run: SinkRun): Promise<PredictionSink>;
  /** For `records`. @throws SluiceError */
  openUploadSink?(sink: End, run: UploadRun): Promise<PredictionSink>;
}
