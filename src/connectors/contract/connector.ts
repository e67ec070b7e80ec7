// What a connector is: the options of its part of a pipeline, their contradictions, its capabilities, and how its source and sink are
// opened. Runs, pipelines and commands ask the registry (connectors.ts) and name no connector.

import type { TSchema } from 'typebox';
import type { FileFormat } from '../../core/file-format.ts';
import type { Log } from '../../core/log.ts';
import type { InputFormat, RunOutput } from '../../engine/stream-spec.ts';
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import type { Chunks } from '../../io/source/byte-source.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { Transport } from './transport.ts';

/** A source, a sink or dead letters of a pipeline; `type` is the name of its connector. */
export interface End {
  readonly type: string;
}

/**
 * What a source gives: `bytes` of named inputs in a format, `rows` of a query, `records` that arrive without an end and are committed by
 * their offsets, or `requests` that the service receives.
 */
export type Reads = 'bytes' | 'rows' | 'records' | 'requests';

/** What a sink takes: `bytes` under a name, `rows` of a table, or `records`, which cannot be taken back. */
export type Writes = 'bytes' | 'rows' | 'records';

export interface Capabilities {
  /** null: not a source. */
  readonly reads: Reads | null;
  /** null: not a sink. */
  readonly writes: Writes | null;
  /** Sources whose predictions the sink takes. */
  readonly takes: readonly Reads[];
  /** As a sink, it stores the answers to records together with their offsets, or an upload once: exactly once. */
  readonly transact: boolean;
  /** As a sink, it can hold all predictions of an input back until the run decides to publish them. */
  readonly withhold: boolean;
}

/** The schemas of its ends in a pipeline. */
export interface EndSchemas {
  readonly source?: TSchema;
  readonly sink?: TSchema;
  readonly deadLetter?: TSchema;
}

/** Reports a contradiction at the key that has to change. */
export type Say = (path: string, message: string) => void;

/** A pipeline as connectors see it: of the ends of others, only what matters to all. */
export interface LintedPipeline {
  readonly source: End;
  readonly sink: End;
  readonly dead_letter?: End | undefined;
  readonly score: { readonly passthrough?: readonly string[] | '*' | undefined };
  readonly on_invalid: string;
  /** What the source gives. */
  readonly reads: Reads;
  /** What the sink takes. */
  readonly writes: Writes;
  /** Whether the source may have several inputs. */
  readonly several: boolean;
}

/** The predictions of a run, for a sink that is not a stream of bytes. */
export interface SinkRun<P extends object = object> {
  readonly manifest: Manifest;
  readonly passthrough: readonly string[] | '*';
  readonly interpretation: InterpretationSpec | null;
  /** The pipeline, for sections that belong to the connector. */
  readonly pipeline: P;
  readonly log: Log;
  /** Starts to digest the input; the returned function gives the digest once all of it was read. */
  digestInput(): () => string;
}

/** An upload whose predictions a sink stores exactly once. */
export interface UploadRun<P extends object = object> {
  readonly pipeline: P;
  /** Unique; the same for every attempt. */
  readonly id: string;
  /** The trace that records of its predictions continue; null: none. */
  readonly trace: string | null;
  /** Called before an attempt skips what an earlier one wrote; an error ends the attempt. */
  beforeResume(): Promise<void>;
}

export interface OpenRows {
  readonly chunks: Chunks;
  readonly input: InputFormat;
  bytesRead(): number;
  close(): Promise<void>;
}

export interface PredictionSink extends ByteSink {
  /** The format in which predictions are written to it. */
  readonly output: RunOutput;
  /** Ends a sink that takes the predictions of all inputs of a run. */
  close?(): Promise<void>;
}

/** The names that match a pattern, of the transport that serves it. @throws SluiceError input_not_found */
export type Matching = (pattern: string) => Promise<string[]>;

/** Methods that a connector lacks belong to capabilities that it lacks. */
export interface Connector {
  readonly capabilities: Capabilities;
  /** Its page in docs/. */
  readonly page: string;
  options: EndSchemas;
  /** Reports the contradictions that its schemas cannot express. Called for every pipeline. */
  lint?(pipeline: LintedPipeline, say: Say): Promise<void>;
  /** Rejects a pipeline that this process cannot run. @throws SluiceError */
  check?(pipeline: object): Promise<void>;
  /** The name of a source or sink in summaries and messages. */
  nameOf(end: End): string;
  /** Of bytes: the format of an end; null: it depends on the names of the inputs. */
  formatOf?(end: End): FileFormat | null;
  /** Of bytes: whether the path of a source is a pattern. */
  isPattern?(source: End): boolean;
  /** Whether bytes of this name are read and written by its transport. A connector may have a transport and no end of its own. */
  serves?(name: string): boolean;
  transport?(): Promise<Transport>;
  /** Of bytes: names of the inputs, sorted. `choose`: the inputs among the names that match a pattern. @throws SluiceError input_not_found | usage */
  inputs?(source: End, choose: (names: readonly string[]) => string[], matching: Matching): Promise<readonly string[]>;
  /** Of bytes: the path of the output, which may contain `{name}`, and its format if neither name nor options define it. */
  output?(sink: End): { path: string; otherwise: FileFormat };
  /** Of rows: why an interrupted run from this source cannot be resumed; null: it can. */
  resumeObstacle?(source: End): string | null;
  /** Of rows. @throws SluiceError */
  openRows?(source: End, run: Pick<SinkRun, 'manifest' | 'passthrough'>): Promise<OpenRows>;
  /** Of rows and records. A sink of records takes the predictions of all inputs. @throws SluiceError */
  openSink?(sink: End, run: SinkRun): Promise<PredictionSink>;
  /** Of records. @throws SluiceError */
  openUploadSink?(sink: End, run: UploadRun): Promise<PredictionSink>;
}
