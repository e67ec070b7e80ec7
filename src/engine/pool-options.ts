// What a pool of workers is told when it is made.
import type { Word } from '../core/log.ts';
import type { EnginePolicy } from '../inference/evaluate/choose-evaluator.ts';
import { categoryBytes, type ModelPackage } from '../model/package/model-package.ts';
import { DEFAULT_HEAP_MB, WORKER_ENTRY } from './early-thread.ts';

export interface PoolOptions {
  model: ModelPackage;
  workers: number;
  /** auto: our own evaluator where it agrees with ONNX Runtime; default. */
  engine?: EnginePolicy;
  /** Take jobs as soon as the model is compiled; their results are valid only if `confirmed` resolves to true. Default: no. */
  ahead?: boolean;
  /** Score small blocks on the calling thread where the model is compiled. Default: no. */
  inline?: boolean;
  /**
   * Little is to be scored: on the calling thread, if the model is compiled, and workers start only with a block that cannot be.
   * Default: no.
   */
  few?: boolean;
  /**
   * How long the rest takes about, ms: one worker at first; the others when jobs have waited for it, and so much is left that they
   * are worth their start. Default: all at once.
   */
  gradual?: (() => number) | null;
  /** Of a gradual pool: the calling thread, which has little else to do, is one of the workers where it can be. Default: no. */
  helps?: boolean;
  /** Rows a micro-batch. */
  batchRows?: number;
  /** A job that takes longer than this counts as a death of its worker, ms. */
  jobTimeoutMs?: number;
  /** Poison rows of one stream before the stream is given up: rows that bring workers down, or make the model throw. */
  maxPoisonRows?: number;
  /** Worker heap limit, MB. A worker that exceeds it dies and its block is bisected. */
  heapMb?: number;
  /** File a worker starts with; tests put their own in between. */
  entry?: URL;
}

export interface PoolEvents {
  /** A worker died and is being replaced. */
  onWorkerDeath?: (reason: Word) => void;
  /** A worker has worked on a block for so long, ms. */
  onWork?: (ms: number) => void;
}

const DEFAULT_BATCH_ROWS = 512;
const DEFAULT_JOB_TIMEOUT_MS = 120_000;
const DEFAULT_MAX_POISON_ROWS = 100;
/** Bytes of heap that a byte of a file of categories becomes while it is read and after: 15 were seen. */
const HEAP_OF_CATEGORIES = 24;

/** The options, complete. */
export function withDefaults(options: PoolOptions): Required<PoolOptions> {
  return {
    engine: 'auto',
    ahead: false,
    inline: false,
    few: false,
    gradual: null,
    helps: false,
    batchRows: DEFAULT_BATCH_ROWS,
    jobTimeoutMs: DEFAULT_JOB_TIMEOUT_MS,
    maxPoisonRows: DEFAULT_MAX_POISON_ROWS,
    heapMb: DEFAULT_HEAP_MB + Math.ceil((categoryBytes(options.model) * HEAP_OF_CATEGORIES) / 2 ** 20),
    entry: WORKER_ENTRY,
    ...options,
  };
}
