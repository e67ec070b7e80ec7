// The interface between runs and their features. Each feature is a plugin; runs/plugins/plugin-list.ts lists the
// plugins in hook order.
import type { KeyObject } from 'node:crypto';
import type { Static, TSchema } from 'typebox';
import type { RunCounts, Tally, WrittenBlock } from '../engine/counts.ts';
import type { TableRowsBytes } from '../formats/columns/table-format.ts';
import type { CommitSet } from '../io/sink/commit-set.ts';
import type { CutOptions } from '../io/source/block-cutter.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { ProvenBlock } from '../proof/statement.ts';
import type { Accumulator, SavedTally } from './accumulator.ts';
import type { OpenSink, OpenSource, StoredBytes } from './byte-ends.ts';
import type { RunContext, RunResult } from './context.ts';
import type { Interrupted } from './plugins/interrupted-run.ts';
import type { RejectsList, RejectsPart } from './rejects-file.ts';
import type { RunStep } from './same-files.ts';
import type { FileRunSpec } from './spec.ts';

/**
 * An option of a run feature: a flag of `sluice score` and a key of pipelines. Flag and key are named after the option.
 */
export interface RunOption {
  schema: TSchema;
  /** Placeholder of the value in the help. */
  value?: string;
  complete?: 'file' | 'folder';
  /** Why `score --plan` rejects the flag. */
  notForShards?: string;
  /** Runs that differ in this option are different runs: neither resumes or skips the outputs of the other. */
  distinguishes?: true;
}

type Options = Readonly<Record<string, RunOption>>;
/** Values of options. An option with a default is always present. */
export type ValuesOf<O extends Options> = {
  readonly [K in keyof O as O[K]['schema'] extends { default: unknown } ? K : never]: Static<O[K]['schema']>;
} & {
  readonly [K in keyof O as O[K]['schema'] extends { default: unknown } ? never : K]?: Static<O[K]['schema']>;
};

/** A run feature: its options, and a function that loads its plugin when a run of files starts. */
export interface RunFeature {
  readonly options: Options;
  readonly load: () => Promise<RunPlugin>;
}

/** Makes the compiler check the options against the option types of the plugin. */
export const feature = <const O extends Options>(options: O, load: () => Promise<RunPlugin<ValuesOf<O>>>) => ({
  options,
  load: load as () => Promise<RunPlugin>,
});

type Intersection<U> = (U extends unknown ? (of: U) => void : never) extends (of: infer I) => void ? I : never;
/** All options of a list of features. */
export type OptionsOf<F extends readonly RunFeature[]> = Intersection<F[number]['options']>;

/** A run that is about to start: its model is resolved, but nothing has been read or written. */
export interface PlannedRun<V = unknown> {
  readonly spec: FileRunSpec;
  /** Values of the options of all features. */
  readonly options: V;
  /** Values of the options that distinguish this run from others. */
  readonly distinguishing: Readonly<Record<string, unknown>>;
  readonly context: RunContext;
  readonly model: ModelPackage;
  readonly steps: readonly RunStep[];
  /** Whether the source is a pattern, or a shard with several pieces. */
  readonly several: boolean;
  readonly rejects: RejectsList;
  /**
   * Key that signs manifests; null if manifests are not signed. The key file is read once, because it may be a pipe.
   */
  readonly signKey: KeyObject | null;
  /** Result reported at the end of the run; plugins add their fields. */
  readonly result: RunResult;
  /** Name of the evaluator in use; empty before the first input. */
  readonly evaluator: () => string;
}

/**
 * A plugin of runs. `plan` may reject the run before any byte is read. `plan` returns a function that opens an observer
 * for each step, or null if the run does not use the feature. The function's closure holds the state of the run.
 */
export interface RunPlugin<V = unknown> {
  plan(run: PlannedRun<V>): OpenStep | null | Promise<OpenStep | null>;
}

/**
 * Called before an input is scored. 'skip' leaves the existing output unchanged and skips the later plugins. Null means
 * that the plugin does not observe this step.
 */
export type OpenStep = (start: StepStart) => StepObserver | 'skip' | null | Promise<StepObserver | 'skip' | null>;

interface StepStart extends RunStep {
  /** Files that are published together with the output. */
  readonly set: CommitSet;
  /** The interrupted run that this step resumes; null unless an earlier plugin found one. */
  readonly resume: Interrupted | null;
}

/** Source, sink and rejects file of one attempt to score the step. */
export interface Attempt {
  readonly source: OpenSource;
  readonly sink: OpenSink;
  readonly rejects: RejectsPart;
  /** The block proof of the step; null if no observer provides one. */
  readonly proof: BlockProof | null;
}

/**
 * Digests of every block read and written. Checkpoints store the digests, and a resumed run compares them with the
 * blocks that it reads again.
 */
export interface BlockProof {
  /** Blocks written since the last call. */
  takeNew(): readonly ProvenBlock[];
  /** Whether blocks are digested while the input is read. The digests then identify the input. */
  readonly isText: boolean;
  /** Whether this run has read again, unchanged, all input that the interrupted run had read. */
  readonly reached: boolean;
}

/**
 * A plugin's observer of one step. Hooks run in plugin order; an error ends the step. `begin` starts an attempt. When
 * the verdict rejects the evaluator, the step is attempted again, and observers discard their earlier observations.
 */
export interface StepObserver {
  /** Implemented only by the plugin for checkpoints. */
  readonly resume?: Interrupted | null;
  /** Implemented by at most one observer of a step. */
  readonly proof?: BlockProof;
  /**
   * Receives every block result, and the saved block results of the interrupted run. The property is read again after
   * `begin`.
   */
  readonly state?: Accumulator<SavedTally>;
  begin?(): void;
  /** Receives the raw bytes of the input and of the output. */
  onSourceBytes?: StoredBytes | undefined;
  onStored?: StoredBytes | undefined;
  /**
   * For Arrow input, and for Parquet or Arrow output: receives bytes, with the number of rows that the bytes contain.
   */
  onInputRows?: TableRowsBytes | undefined;
  onOutputRows?: TableRowsBytes | undefined;
  /** Reads the output of the interrupted run before the sink appends to it. */
  verifyWritten?(stored: AsyncIterable<Uint8Array>): Promise<void>;
  /** Wraps source or sink after they were opened. */
  tapSource?(attempt: Attempt): OpenSource;
  tapSink?(attempt: Attempt): OpenSink;
  /** Receives the text of the input in block order. Not called for tables. */
  onConsumed?: CutOptions['onConsumed'] | undefined;
  onPart?(part: Tally): void;
  /** Called when a block was written, before the sink ends the block. */
  onBlock?(block: WrittenBlock): void;
  /**
   * Called after the sink has ended the block. `stored`: length of the output from which a resumed run can append; null
   * if a run cannot resume after this block.
   */
  onBlockEnd?(block: WrittenBlock, stored: number | null, attempt: Attempt): void;
  /** Called when the evaluator is confirmed, so that the output written so far is valid. */
  onVerdict?(evaluator: string): void;
  /** Called when all rows were scored. An error prevents publication. */
  beforeCommit?(counts: Readonly<RunCounts>, attempt: Attempt): void | Promise<void>;
  /** Called when the output is complete. Observers may add sidecar files to the set. */
  scored?(counts: Readonly<RunCounts>, attempt: Attempt): Promise<void>;
  /** Called before the set is published with all steps of its commit group. */
  sidecars?(counts: Readonly<RunCounts>): Promise<void>;
  /** Called after the files were published. Never throws. */
  published?(): Promise<void>;
  /** Called when the step failed. Never throws. */
  failed?(error: unknown): Promise<void>;
}

type Hook<K extends keyof StepObserver> = NonNullable<StepObserver[K]>;

/** The implemented hooks with this name, in observer order. */
function hooks<K extends keyof StepObserver>(observers: readonly StepObserver[], name: K): Hook<K>[] {
  return observers.flatMap((observer) => {
    const hook = observer[name];
    if (hook === undefined) return [];
    return [(typeof hook === 'function' ? hook.bind(observer) : hook) as Hook<K>];
  });
}

/** One function that calls all the functions; undefined if there are none, so that the engine skips the call. */
function fanOut<A extends unknown[]>(all: readonly ((...args: A) => void)[]): ((...args: A) => void) | undefined {
  if (all.length < 2) return all[0];
  return (...args) => {
    for (const one of all) one(...args);
  };
}

/** All observers of a step, combined into one. */
export class StepObservers {
  readonly list: readonly StepObserver[];

  constructor(list: readonly StepObserver[]) {
    this.list = list;
  }

  get resume(): Interrupted | null {
    return this.list.find(({ resume }) => resume)?.resume ?? null;
  }

  begin(): void {
    for (const observer of this.list) observer.begin?.();
  }

  /** Taps for opening source and sink. Read this property after `begin`. */
  get taps(): Taps {
    return {
      onSourceBytes: fanOut(hooks(this.list, 'onSourceBytes')),
      onStored: fanOut(hooks(this.list, 'onStored')),
      onInputRows: fanOut(hooks(this.list, 'onInputRows')),
      onOutputRows: fanOut(hooks(this.list, 'onOutputRows')),
      // A stream can be read only once, so only the observer with the block proof verifies it.
      verifyWritten: hooks(this.list, 'verifyWritten')[0],
    };
  }

  /** Wraps source and sink with all observers. */
  attempt(ends: { source: OpenSource; sink: OpenSink; rejects: RejectsPart }): ObservedAttempt {
    let attempt: Attempt = { ...ends, proof: this.list.find(({ proof }) => proof)?.proof ?? null };
    for (const observer of this.list) {
      if (observer.tapSource) attempt = { ...attempt, source: observer.tapSource(attempt) };
      if (observer.tapSink) attempt = { ...attempt, sink: observer.tapSink(attempt) };
    }
    const onConsumed = fanOut(hooks(this.list, 'onConsumed'));
    const onVerdict = fanOut(hooks(this.list, 'onVerdict'));
    const onPart = fanOut([
      ...this.list.flatMap(({ state }) => (state ? [(part: Tally) => state.add(part)] : [])),
      ...hooks(this.list, 'onPart'),
    ]);
    return {
      ...attempt,
      ...(onConsumed ? { onConsumed } : {}),
      ...(onVerdict ? { onVerdict } : {}),
      ...(onPart ? { onPart } : {}),
      ...this.#blocks(attempt),
      ...(this.resume ? { goesOn: this.resume.last } : {}),
    };
  }

  /**
   * Ends each block of the sink even without observers. Otherwise, observers would change where the members of a
   * compressed file end.
   */
  #blocks(attempt: Attempt): Pick<ObservedAttempt, 'onBlock'> {
    const { sink } = attempt;
    const [written, ended] = [hooks(this.list, 'onBlock'), hooks(this.list, 'onBlockEnd')];
    if (!sink.blockEnd && written.length === 0 && ended.length === 0) return {};
    return {
      onBlock: async (block) => {
        for (const see of written) see(block);
        const stored = (await sink.blockEnd?.()) ?? null;
        for (const see of ended) see(block, stored, attempt);
      },
    };
  }

  async beforeCommit(counts: Readonly<RunCounts>, attempt: Attempt): Promise<void> {
    for (const observer of this.list) await observer.beforeCommit?.(counts, attempt);
  }

  async scored(counts: Readonly<RunCounts>, attempt: Attempt): Promise<void> {
    for (const observer of this.list) await observer.scored?.(counts, attempt);
  }

  async sidecars(counts: Readonly<RunCounts>): Promise<void> {
    for (const observer of this.list) await observer.sidecars?.(counts);
  }

  async published(): Promise<void> {
    for (const observer of this.list) await observer.published?.();
  }

  async failed(error: unknown): Promise<void> {
    for (const observer of this.list) await observer.failed?.(error);
  }
}

export interface Taps {
  onSourceBytes: StoredBytes | undefined;
  onStored: StoredBytes | undefined;
  onInputRows: TableRowsBytes | undefined;
  onOutputRows: TableRowsBytes | undefined;
  verifyWritten: Hook<'verifyWritten'> | undefined;
}

export interface ObservedAttempt extends Attempt {
  onConsumed?: NonNullable<CutOptions['onConsumed']>;
  onVerdict?: (evaluator: string) => void;
  onPart?: (part: Tally) => void;
  onBlock?: (block: WrittenBlock) => Promise<void>;
  goesOn?: Interrupted['last'];
}
