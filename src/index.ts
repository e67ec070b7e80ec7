// The library: opens a model with its workers in this process, and scores streams of applications.

import './core/no-telemetry.ts';
import { closed } from './config/options/describe-option.ts';
import { SCORING } from './config/options/scoring.ts';
import { fits, Type } from './config/schema.ts';
import type { ErrorCode, ErrorDetail } from './core/errors.ts';
import { SluiceError } from './core/errors.ts';
import { TEXT_FORMATS, type TextFormat } from './core/file-format.ts';
import { SILENT } from './core/log.ts';
import { openRegistry } from './doors/commands/open-registry.ts';
import type { RunCounts } from './engine/counts.ts';
import { assertExplainable } from './engine/stream-spec.ts';
import { WorkerPool } from './engine/worker-pool.ts';
import type { DelimiterName } from './formats/delimited/header.ts';
import { DELIMITERS } from './formats/delimited/header.ts';
import type { EnginePolicy } from './inference/evaluate/choose-evaluator.ts';
import type { InterpretationSpec } from './inference/explain/interpretation.ts';
import type { ModelPackage } from './model/package/model-package.ts';
import { RunAccount } from './runs/account.ts';
import { defaultWorkers } from './runs/input-scorer.ts';
import { runOnce } from './runs/run-once.ts';

export { type ErrorCode, type ErrorDetail, SluiceError, type TextFormat };

export interface OpenModelOptions {
  /**
   * A folder, `s3://bucket/prefix` or `mlflow+https://host`. Default: $SLUICE_REGISTRY, else ./models. Models that the
   * registry does not have are looked up among the bundled models.
   */
  registry?: string;
  /** Number of worker threads. Default: one per core. */
  workers?: number;
  /**
   * `auto` (default): Sluice's own evaluator if it agrees with ONNX Runtime, else ONNX Runtime. Any other value forces
   * that evaluator.
   */
  evaluator?: 'auto' | 'onnxruntime' | 'native';
}

/** A column that the model reads. */
export interface ModelColumn {
  name: string;
  kind: 'number' | 'boolean' | 'category' | 'text';
}

/**
 * A model with its workers, which can score any number of streams at the same time. Close the model when it is no
 * longer needed, or use `await using`.
 */
export interface Model extends AsyncDisposable {
  /** The reference `id:version`. */
  readonly ref: string;
  readonly sha256: string;
  readonly columns: readonly ModelColumn[];
  /** Terminates the workers and cancels streams that are still running. Idempotent. */
  close(): Promise<void>;
}

export interface ScoreStreamOptions {
  /** Format of the applications: delimited text with a header row, one array of objects, or one object per line. */
  format: TextFormat;
  /** Delimiter of csv. Default: comma. */
  delimiter?: 'tab' | 'comma' | 'semicolon' | 'pipe';
  /** Format of the predictions. Default: the format of the applications. */
  output?: TextFormat;
  /**
   * Input columns to copy to the output, even if the model does not read them: names, or `*` for all. Default: none.
   */
  passthrough?: readonly string[] | '*';
  /** `effects`: the effect of each column, and reason codes. `reasons`: only reason codes. Default: `none`. */
  interpretation?: 'none' | 'effects' | 'reasons';
  /** Number of strongest pairwise interactions to report. Requires `effects` and a tree model. */
  interactions?: number;
  /**
   * `fail`: the first invalid application ends the stream with an error. `report` (default): an error is written in
   * place of the prediction.
   */
  onInvalid?: 'report' | 'fail';
  /** Maximum length of an application in bytes. Longer applications are rejected. Default: 1 MiB. */
  maxRowBytes?: number;
  signal?: AbortSignal;
}

/**
 * Counts of a stream; rows = scored + rejected (`skipped` is absent). `interpreted` and `inexact`: scored rows with and
 * without an interpretation. `details`: the first rejected rows.
 */
export type StreamCounts = Readonly<RunCounts>;

/**
 * Predictions as bytes, in the order of the applications. A stream can be iterated only once. `counts` resolves when
 * the stream has ended without an error.
 */
export interface ScoredStream extends AsyncIterable<Uint8Array> {
  /** Rejects with the error that ended the stream. */
  readonly counts: Promise<StreamCounts>;
}

/** Worker pool of each model. The pool is not part of the Model interface, so that callers cannot access it. */
const opened = new WeakMap<Model, { model: ModelPackage; pool: WorkerPool }>();

/**
 * Opens a model: resolves the reference (`id`, `id:version`, `id@alias`), starts the workers and compares the
 * evaluators.
 * @throws SluiceError model_not_found | model_invalid | model_hash_mismatch | registry_unavailable | usage (also for an
 * unknown option, or a value out of range)
 */
export async function openModel(reference: string, options: OpenModelOptions = {}): Promise<Model> {
  await checkArguments(OPEN_OPTIONS, options);
  const registry = await openRegistry(options.registry, { log: SILENT });
  const model = await registry.resolve(reference);
  const engine: EnginePolicy = options.evaluator ?? 'auto';
  const pool = await WorkerPool.start({ model, engine, workers: options.workers ?? defaultWorkers() });
  const close = () => pool.close();
  const handle: Model = {
    ref: model.ref,
    sha256: model.manifest.onnx.sha256,
    columns: model.manifest.columns.map(({ name, kind }) => ({ name, kind })),
    close,
    [Symbol.asyncDispose]: close,
  };
  opened.set(handle, { model, pool });
  return handle;
}

/**
 * Scores applications while they arrive. The consumer determines the speed, so memory does not depend on the number of
 * applications. Leaving the loop (`break`) or aborting the signal cancels the work.
 * @throws SluiceError during iteration: header_mismatch, malformed_json, cancelled, … (docs/errors.md), or any error
 * that `applications` throws
 */
export function scoreStream(
  model: Model,
  applications: AsyncIterable<Uint8Array>,
  options: ScoreStreamOptions,
): ScoredStream {
  const { promise: counts, resolve, reject } = Promise.withResolvers<StreamCounts>();
  // Prevents an unhandled rejection: callers that only iterate get the error from the iterator.
  counts.catch(() => {});
  return {
    counts,
    async *[Symbol.asyncIterator]() {
      const given = new AbortController();
      const handover = new Handover();
      const signal = options.signal ? AbortSignal.any([options.signal, given.signal]) : given.signal;
      const done = run(model, applications, options, (bytes) => handover.put(bytes), signal);
      done.then(resolve, reject);
      done.then(
        () => handover.end(),
        () => handover.end(),
      );
      try {
        yield* handover.taken();
        await done;
      } finally {
        given.abort(new SluiceError('cancelled', 'the caller stopped reading predictions'));
        handover.end();
        await done.catch(() => {});
      }
    },
  };
}

async function run(
  handle: Model,
  applications: AsyncIterable<Uint8Array>,
  options: ScoreStreamOptions,
  put: (bytes: Uint8Array) => Promise<void>,
  signal: AbortSignal,
): Promise<StreamCounts> {
  const behind = opened.get(handle);
  if (!behind) throw new SluiceError('usage', 'the model does not come from openModel');
  const { signal: _, ...plain } = options;
  await checkArguments(SCORE_OPTIONS, plain);
  const { format, output = format } = options;
  const interpretation = interpretationAsked(options);
  if (interpretation) assertExplainable(behind.model, interpretation);
  return runOnce({
    ...behind,
    source: {
      chunks: applications,
      input:
        format === 'json' || format === 'ndjson'
          ? { format }
          : { format: 'delimited', delimiter: delimiterOf(format, options.delimiter) },
    },
    scoring: {
      passthrough: options.passthrough === '*' ? '*' : [...new Set(options.passthrough)],
      interpretation,
      limits: options.maxRowBytes === undefined ? {} : { maxRecordBytes: options.maxRowBytes },
      failOnInvalid: options.onInvalid === 'fail',
    },
    sink: {
      output: { format: output, delimiter: delimiterOf(output, options.delimiter) },
      write: put,
      commit: async () => {},
      abort: async () => {},
    },
    account: new RunAccount().unit(),
    signal,
  });
}

const OPEN_OPTIONS = Type.Object(
  {
    registry: Type.Optional(Type.String()),
    workers: Type.Optional(SCORING.workers()),
    evaluator: Type.Optional(SCORING.evaluator()),
  },
  closed,
);
const SCORE_OPTIONS = Type.Object(
  {
    format: Type.Enum([...TEXT_FORMATS]),
    delimiter: Type.Optional(SCORING.delimiter()),
    output: Type.Optional(Type.Enum([...TEXT_FORMATS])),
    passthrough: Type.Optional(SCORING.passthrough_list()),
    interpretation: Type.Optional(SCORING.interpretation()),
    interactions: Type.Optional(SCORING.interactions()),
    onInvalid: Type.Optional(SCORING.on_invalid()),
    maxRowBytes: Type.Optional(SCORING.record_bytes()),
  },
  closed,
);

/**
 * Checks options against a schema. An option with the value undefined counts as absent.
 * @throws SluiceError usage: lists every unknown option and every invalid value
 */
async function checkArguments(schema: Parameters<typeof fits>[0], options: object): Promise<void> {
  const value = Object.fromEntries(Object.entries(options).filter(([, option]) => option !== undefined));
  if (fits(schema, value)) return;
  const { checkYaml } = await import('./config/yaml-document.ts');
  const at = (_place: unknown, message: string) => ({ file: '', line: 0, column: 0, message });
  const checked = checkYaml({ ok: true, value, at, atPath: at }, schema);
  if (checked.ok) return;
  throw new SluiceError('usage', checked.problems.map(({ message }) => message).join('; '));
}

/** @throws SluiceError usage: `interactions` is used without effects */
function interpretationAsked({ interpretation = 'none', interactions }: ScoreStreamOptions): InterpretationSpec | null {
  if (interactions !== undefined && interpretation !== 'effects')
    throw new SluiceError('usage', "interactions need interpretation: 'effects'");
  if (interpretation === 'none') return null;
  const pairs = interactions === undefined ? {} : { interactions };
  return { effects: interpretation === 'effects', reasons: true, top: null, below: null, ...pairs };
}

const delimiterOf = (format: TextFormat, name: DelimiterName | undefined): string =>
  DELIMITERS[format === 'tsv' ? 'tab' : (name ?? 'comma')];

/**
 * Passes bytes from a writer to a reader, one piece at a time. The writer continues when the reader has taken the
 * piece.
 */
class Handover {
  #piece: { bytes: Uint8Array; taken: () => void } | null = null;
  #wake = () => {};
  #ended = false;

  async put(bytes: Uint8Array): Promise<void> {
    if (this.#ended) return;
    await new Promise<void>((resolve) => {
      // A copy, because the engine reuses its buffers.
      this.#piece = { bytes: Uint8Array.from(bytes), taken: resolve };
      this.#wake();
    });
  }

  end(): void {
    this.#ended = true;
    this.#piece?.taken();
    this.#wake();
  }

  async *taken(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const piece = this.#piece;
      if (piece) {
        this.#piece = null;
        try {
          yield piece.bytes;
        } finally {
          piece.taken();
        }
      } else if (this.#ended) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
