// The interface of a connector: options, checks of options, capabilities, and functions that open its source and sink.
// Runs, pipelines and commands look up connectors in the registry (connectors.ts) and never refer to a connector by
// name.

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
 * What a source supplies. `bytes`: the contents of named inputs in a format. `rows`: the rows of a query. `records`: an
 * endless stream of records, committed by offset. `requests`: requests that the service receives.
 */
export type Reads = 'bytes' | 'rows' | 'records' | 'requests';

/**
 * What a sink writes. `bytes`: an output with a name. `rows`: rows of a table. `records`: records that cannot be
 * retracted.
 */
export type Writes = 'bytes' | 'rows' | 'records';

export interface Capabilities {
  /** null: the connector has no source. */
  readonly reads: Reads | null;
  /** null: the connector has no sink. */
  readonly writes: Writes | null;
  /** Kinds of sources from which this sink accepts predictions. */
  readonly takes: readonly Reads[];
  /**
   * Whether the sink delivers exactly once. Such a sink stores the answers to records together with the offsets of the
   * records, and stores each upload once.
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

/** Reports a contradiction. `path`: the configuration key that must change. */
export type Say = (path: string, message: string) => void;

/** The sections of a pipeline that the checks of a connector may read. */
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

/** The context of a run that writes its predictions as rows or records rather than as bytes. */
export interface SinkRun<P extends object = object> {
  readonly manifest: Manifest;
  /** SHA-256 of the package of the model, hexadecimal. */
  readonly packageSha256: string;
  readonly passthrough: readonly string[] | '*';
  readonly interpretation: InterpretationSpec | null;
  /** The whole pipeline, because a connector may have its own section in it. */
  readonly pipeline: P;
  readonly log: Log;
  /** Starts to hash the input. The returned function returns the digest; call it after all input was read. */
  digestInput(): () => string;
  /**
   * Number of inputs of this run that were stored, by a digest of input and output. The sink updates it. Inputs with the
   * same content are different inputs, whereas a repeated run stores nothing again.
   */
  readonly stored: Map<string, number>;
}

/** An upload whose predictions a sink stores exactly once. */
export interface UploadRun<P extends object = object> {
  readonly manifest: Manifest;
  /** SHA-256 of the package of the model, hexadecimal. */
  readonly packageSha256: string;
  readonly pipeline: P;
  /** Unique ID of the upload, shared by all its attempts. */
  readonly id: string;
  /** Trace context that the prediction records continue; null: none. */
  readonly trace: string | null;
  /** Identifies the records that an attempt writes. The sink stores it with them. At most 4,096 bytes. */
  readonly identity: string;
  /**
   * Called before an attempt skips the records that an earlier attempt wrote. If it throws, the attempt ends.
   * `identity`: of the attempt that wrote these records; null: unknown.
   */
  beforeResume(identity: string | null): Promise<void>;
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

/**
 * Lists the names that match a pattern, with the transport that is responsible for the pattern.
 * @throws SluiceError input_not_found
 */
export type Matching = (pattern: string) => Promise<string[]>;

/** A connector. It omits the optional methods that belong to capabilities it lacks. */
export interface Connector {
  readonly capabilities: Capabilities;
  /** The connector's page in docs/. */
  readonly page: string;
  options: EndSchemas;
  /**
   * Reports contradictions that the schemas cannot express. Called for every pipeline, even if the pipeline does not
   * use this connector.
   */
  lint?(pipeline: LintedPipeline, say: Say): Promise<void>;
  /** Describes risks of a valid pipeline whose source or sink is this connector. */
  warnings?(pipeline: object): Promise<string[]>;
  /** Rejects a pipeline that this process cannot run. @throws SluiceError */
  check?(pipeline: object): Promise<void>;
  /** The name of a source or sink in summaries and messages. */
  nameOf(end: End): string;
  /** For `bytes`: the format of a source or sink; null: the format depends on the names of the inputs. */
  formatOf?(end: End): FileFormat | null;
  /** For `bytes`: whether the path of a source is a pattern. */
  isPattern?(source: End): boolean;
  /** Whether the transport of this connector handles inputs and outputs with this name. A connector may have a transport
   * without having a source or sink.
   */
  serves?(name: string): boolean;
  transport?(): Promise<Transport>;
  /**
   * For `bytes`: the sorted names of the inputs. `choose` selects inputs from the names that match a pattern.
   * @throws SluiceError input_not_found | usage
   */
  inputs?(source: End, choose: (names: readonly string[]) => string[], matching: Matching): Promise<readonly string[]>;
  /**
   * For `bytes`: the path of the output, which may contain `{name}`. `otherwise`: the format if neither the name nor
   * the options define one.
   */
  output?(sink: End): { path: string; otherwise: FileFormat };
  /** For `rows`: why an interrupted run from this source cannot be resumed; null: the run can be resumed. */
  resumeObstacle?(source: End): string | null;
  /** For `rows`: opens the source. @throws SluiceError */
  openRows?(source: End, run: Pick<SinkRun, 'manifest' | 'passthrough'>): Promise<OpenRows>;
  /**
   * For `rows` and `records`: opens the sink. A sink of records receives the predictions of all inputs.
   * @throws SluiceError
   */
  openSink?(sink: End, run: SinkRun): Promise<PredictionSink>;
  /** For `records`: opens the sink for an upload. @throws SluiceError */
  openUploadSink?(sink: End, run: UploadRun): Promise<PredictionSink>;
}
