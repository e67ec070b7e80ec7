// The lifecycle of a run as its features see it. A feature is a plugin; runs/plugins/plugin-list.ts lists them in the order in which hooks run.
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

/** An option of a run feature: a flag of `sluice score` and a key of pipelines, by its name in snake_case. */
export interface RunOption {
  schema: TSchema;
  /** Word for the value in the help. */
  value?: string;
  complete?: 'file' | 'folder';
  /** Why `score --plan` refuses the flag. */
  notForShards?: string;
  /** A run with another value is another run: it neither continues nor skips what that run wrote. */
  distinguishes?: true;
}

type Options = Readonly<Record<string, RunOption>>;
/** Values of options: those with a default are always present. */
export type ValuesOf<O extends Options> = {
  readonly [K in keyof O as O[K]['schema'] extends { default: unknown } ? K : never]: Static<O[K]['schema']>;
} & {
  readonly [K in keyof O as O[K]['schema'] extends { default: unknown } ? never : K]?: Static<O[K]['schema']>;
};

/** A feature of runs: its options, and its plugin, which is loaded when a run of files starts. */
export interface RunFeature {
  readonly options: Options;
  readonly load: () => Promise<RunPlugin>;
}

/** The compiler compares the options with those that the plugin takes. */
export const feature = <const O extends Options>(options: O, load: () => Promise<RunPlugin<ValuesOf<O>>>) => ({
  options,
  load: load as () => Promise<RunPlugin>,
});

type Intersection<U> = (U extends unknown ? (of: U) => void : never) extends (of: infer I) => void ? I : never;
/** All options of a list of features. */
export type OptionsOf<F extends readonly RunFeature[]> = Intersection<F[number]['options']>;

/** A run that is about to start: its model is resolved, and nothing has been read or written. */
export interface PlannedRun<V = unknown> {
  readonly spec: FileRunSpec;
  /** Values of the options of all features. */
  readonly options: V;
  /** Those that distinguish this run from others. */
  readonly distinguishing: Readonly<Record<string, unknown>>;
  readonly context: RunContext;
  readonly model: ModelPackage;
  readonly steps: readonly RunStep[];
  /** The source is a pattern, or a shard has several pieces. */
  readonly several: boolean;
  readonly rejects: RejectsList;
  /** Signs what the run proves; null: nothing is signed. Read once, because it may be a pipe. */
  readonly signKey: KeyObject | null;
  /** Published with the end of the run; plugins add what they know. */
  readonly result: RunResult;
  /** Name of the evaluator that scores; empty before the first input. */
  readonly evaluator: () => string;
}

/**
 * A feature of runs. `plan` may reject the run before any byte is read; null: this run does not use the feature. The state of a run
 * lives in the closure of the returned function.
 */
export interface RunPlugin<V = unknown> {
  plan(run: PlannedRun<V>): OpenStep | null | Promise<OpenStep | null>;
}

/** An input is about to be scored. 'skip': its output stays as it is, and no later plugin sees the step. */
export type OpenStep = (start: StepStart) => StepObserver | 'skip' | null | Promise<StepObserver | 'skip' | null>;

interface StepStart extends RunStep {
  /** Files that are published together with the output. */
  readonly set: CommitSet;
  /** The interrupted run that this step continues, once an earlier plugin has found one. */
  readonly resume: Interrupted | null;
}

/** Both ends of one attempt to score the step. */
export interface Attempt {
  readonly source: OpenSource;
  readonly sink: OpenSink;
  readonly rejects: RejectsPart;
  /** The block proof of the step; null without one. */
  readonly proof: BlockProof | null;
}

/** Marks of every block read and written. A checkpoint stores them, and a resumed run compares what it reads again. */
export interface BlockProof {
  /** Blocks written since the last call. */
  takeNew(): readonly ProvenBlock[];
  /** The marks identify the input: its blocks are digested while it is read. */
  readonly isText: boolean;
  /** Everything that the interrupted run had read was read again and is the same. */
  readonly reached: boolean;
}

/**
 * What a plugin sees of one step. Hooks run in the order of the plugins; an error ends the step. `begin` starts an attempt: a step is
 * attempted again when the comparison with ONNX Runtime rejects the evaluator, and everything observed before is then discarded.
 */
export interface StepObserver {
  /** Implemented by checkpoints only. */
  readonly resume?: Interrupted | null;
  /** At most one observer of a step has it. */
  readonly proof?: BlockProof;
  /** Receives every part that is scored, and the saved parts of the interrupted run. Read again after `begin`. */
  readonly state?: Accumulator<SavedTally>;
  begin?(): void;
  /** Raw bytes of the input and of the output, as stored. */
  onSourceBytes?: StoredBytes | undefined;
  onStored?: StoredBytes | undefined;
  /** Bytes of an Arrow input, and of a Parquet or Arrow output, with the rows in them. */
  onInputRows?: TableRowsBytes | undefined;
  onOutputRows?: TableRowsBytes | undefined;
  /** Reads what the interrupted run wrote, before the sink appends to it. */
  verifyWritten?(stored: AsyncIterable<Uint8Array>): Promise<void>;
  /** Wraps the ends after they were opened. */
  tapSource?(attempt: Attempt): OpenSource;
  tapSink?(attempt: Attempt): OpenSink;
  /** Text of the input, in the order in which it is cut into blocks. Not of tables. */
  onConsumed?: CutOptions['onConsumed'] | undefined;
  onPart?(part: Tally): void;
  /** A block was written; afterwards the sink ended it. */
  onBlock?(block: WrittenBlock): void;
  /** `stored`: bytes of the output after which a resumed run can append; null: it cannot. */
  onBlockEnd?(block: WrittenBlock, stored: number | null, attempt: Attempt): void;
  /** The evaluator is confirmed: what it wrote is valid. */
  onVerdict?(evaluator: string): void;
  /** All rows were scored. Throwing prevents publication. */
  beforeCommit?(counts: Readonly<RunCounts>, attempt: Attempt): void | Promise<void>;
  /** The output is complete; sidecar files are added to the set. */
  scored?(counts: Readonly<RunCounts>, attempt: Attempt): Promise<void>;
  /** The set is about to be published, with all other steps of its group. */
  sidecars?(counts: Readonly<RunCounts>): Promise<void>;
  /** The files have their names. Never throws. */
  published?(): Promise<void>;
  /** Never throws. */
  failed?(error: unknown): Promise<void>;
}

type Hook<K extends keyof StepObserver> = NonNullable<StepObserver[K]>;

/** The hooks of one name, in order. */
function hooks<K extends keyof StepObserver>(observers: readonly StepObserver[], name: K): Hook<K>[] {
  return observers.flatMap((observer) => {
    const hook = observer[name];
    if (hook === undefined) return [];
    return [(typeof hook === 'function' ? hook.bind(observer) : hook) as Hook<K>];
  });
}

/** One function that calls all; undefined without any, so that the engine does no work for them. */
function fanOut<A extends unknown[]>(all: readonly ((...args: A) => void)[]): ((...args: A) => void) | undefined {
  if (all.length < 2) return all[0];
  return (...args) => {
    for (const one of all) one(...args);
  };
}

/** All observers of a step, as the runner calls them. */
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

  /** What openers of both ends need; after `begin`. */
  get taps(): Taps {
    return {
      onSourceBytes: fanOut(hooks(this.list, 'onSourceBytes')),
      onStored: fanOut(hooks(this.list, 'onStored')),
      onInputRows: fanOut(hooks(this.list, 'onInputRows')),
      onOutputRows: fanOut(hooks(this.list, 'onOutputRows')),
      // A stream is read once: only the observer with the block proof verifies it.
      verifyWritten: hooks(this.list, 'verifyWritten')[0],
    };
  }

  /** Both ends with everything that observes them. */
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

  /** Where members of a compressed file end must not depend on whether anything observes the blocks. */
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
