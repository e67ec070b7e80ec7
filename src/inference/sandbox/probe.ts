// Runs a model in a child process, so that a crash or an endless loop in ONNX Runtime becomes an error with a reason.
import type { ChildProcess } from 'node:child_process';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { startTimer } from '../../core/clock.ts';
import { entryFile } from '../../core/entry-file.ts';
import { type ErrorCode, SluiceError } from '../../core/errors.ts';
import { asMessage, type ModelPackage } from '../../model/package/model-package.ts';
import type { EncodedInput } from '../encode/encoder.ts';
import type { EnginePolicy, Verdict } from '../evaluate/choose-evaluator.ts';
import type { NativePlan } from '../evaluate/native/native-plan.ts';
import type { OutputTensor, SessionInput } from '../evaluate/session.ts';
import { mayBeKept } from './kept-verdicts.ts';
import { limitsFor, startLimited, type Watch, watchUsage } from './limited-process.ts';

// Messages between a probe and its process.

/**
 * The result that the caller waits for. `verdict`: a large model is compiled while ONNX Runtime opens it. `plan`: the
 * model is compiled first and opened afterwards, which needs less memory.
 */
export type ProbeAim = 'plan' | 'verdict';

export type ProbeRequest =
  | { type: 'open'; bytes: Uint8Array }
  | { type: 'run'; inputs: readonly EncodedInput[]; ranges: readonly (readonly [number, number])[]; outputs: string[] }
  | { type: 'verdict'; model: ModelPackage; policy: EnginePolicy; priority: ProbeAim }
  | { type: 'bench'; inputs: readonly EncodedInput[]; rows: number; outputs: string[]; ms: number };

interface ProbeOpened {
  inputs: readonly SessionInput[];
  outputs: readonly string[];
  /** Time to load the model in ms. */
  loadMs: number;
  /** Memory by which loading the model enlarged the process, in bytes. */
  memoryBytes: number;
}

export type ProbeAnswer =
  | { type: 'ready' }
  | ({ type: 'opened' } & ProbeOpened)
  | { type: 'ran'; results: OutputTensor[][] }
  | { type: 'compiled'; plan: NativePlan }
  | { type: 'judged'; verdict: Verdict }
  | { type: 'benched'; rowsPerSecond: number; memoryBytes: number }
  | { type: 'failed'; code: ErrorCode; message: string };

/** CPU seconds for starting Node and loading the program. */
const START_CPU_SECONDS = 20;
/** Maximum CPU seconds per row. */
const ROW_CPU_SECONDS = 0.02;
const MB = 1024 * 1024;
/** Model size in bytes for which a process is prepared before the model is known. */
const PREPARED_FOR_BYTES = 64 * MB;

/** Limits of one request. */
interface Limit {
  cpuSeconds: number;
  memoryBytes: number;
  signal?: AbortSignal | undefined;
}

const limitOf = (modelBytes: number, signal?: AbortSignal): Limit => {
  const { memoryBytes, openCpuSeconds } = limitsFor(modelBytes);
  return { cpuSeconds: openCpuSeconds, memoryBytes, signal };
};

/**
 * Limits of a comparison, which needs additional time and memory to compile the model. A graph that cannot be compiled
 * is not run in this process.
 */
const comparisonLimit = (modelBytes: number, signal?: AbortSignal): Limit => ({
  cpuSeconds: 15 + (6 * modelBytes) / MB,
  memoryBytes: limitsFor(Math.max(modelBytes, PREPARED_FOR_BYTES)).memoryBytes,
  signal,
});

export class Probe {
  readonly opened: ProbeOpened;
  readonly #child: ChildProcess;
  readonly #limit: Limit;

  private constructor(child: ChildProcess, opened: ProbeOpened, limit: Limit) {
    this.#child = child;
    this.opened = opened;
    this.#limit = limit;
  }

  /**
   * Starts a process and loads the model in it. A request that exceeds the CPU time or memory for a model of this size
   * ends the process. Aborting `signal` ends the process, too.
   * @throws SluiceError model_invalid (damaged, rejected, crashed or hung) | cancelled
   */
  static async open(bytes: Uint8Array, signal?: AbortSignal): Promise<Probe> {
    // The prepared process is not used, because its limits are too high for running an unknown graph.
    const child = start(bytes.length);
    const limit = limitOf(bytes.length, signal);
    try {
      await ready.get(child);
      const opened = await ask(child, { type: 'open', bytes }, 'opened', limit);
      return new Probe(child, opened, limit);
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
  }

  /**
   * Compares both evaluators in a process that ends afterwards, which frees the memory of ONNX Runtime and of the
   * compilation. If the model can be compiled, `onPlan` receives the compiled model before the comparison starts.
   * `priority`: the result that the caller waits for.
   * @throws SluiceError model_invalid | model_hash_mismatch
   */
  static async verdict(
    model: ModelPackage,
    policy: EnginePolicy,
    onPlan: (plan: NativePlan) => void,
    priority: ProbeAim = 'verdict',
    signal?: AbortSignal,
  ): Promise<Verdict> {
    const { size } = await stat(path.join(model.folder, model.manifest.onnx.file)).catch(() => ({ size: 0 }));
    const child = take(size);
    const listen = (message: ProbeAnswer): void => {
      if (message.type === 'compiled') onPlan(message.plan);
    };
    try {
      await ready.get(child);
      child.on('message', listen);
      const limit = comparisonLimit(size, signal);
      return (await ask(child, { type: 'verdict', model: asMessage(model), policy, priority }, 'judged', limit))
        .verdict;
    } finally {
      child.off('message', listen);
      child.kill('SIGKILL');
    }
  }

  /**
   * Starts the process of the next probe in advance, so that its start-up overlaps with other work. Does nothing if
   * verdicts are cached, because no probe may be needed.
   */
  static prepare(): void {
    if (prepared || mayBeKept()) return;
    prepared = start(PREPARED_FOR_BYTES);
    // A prepared process must not keep the parent alive.
    prepared.unref();
    prepared.channel?.unref();
  }

  /** Ends a prepared process that was not used. */
  static dismiss(): void {
    prepared?.kill('SIGKILL');
    prepared = null;
  }

  /**
   * Runs each range of rows separately. Returns the tensors of `outputs` for each range.
   * @throws SluiceError model_failed | model_invalid
   */
  async run(
    inputs: readonly EncodedInput[],
    ranges: readonly (readonly [number, number])[],
    outputs: string[],
  ): Promise<OutputTensor[][]> {
    const rows = ranges.reduce((n, [from, to]) => n + to - from, 0);
    return (await ask(this.#child, { type: 'run', inputs, ranges, outputs }, 'ran', this.#limitFor(rows))).results;
  }

  /** Measures the rows per second of one thread for about `ms` milliseconds, and the memory of the process in bytes. */
  async bench(
    inputs: readonly EncodedInput[],
    rows: number,
    outputs: string[],
    ms: number,
  ): Promise<{ rowsPerSecond: number; memoryBytes: number }> {
    const limit = this.#limitFor(rows, ms / 1000);
    return ask(this.#child, { type: 'bench', inputs, rows, outputs, ms }, 'benched', limit);
  }

  /** The limit including CPU time for the rows. A graph that never ends is detected with the first few rows. */
  #limitFor(rows: number, seconds = 0): Limit {
    return { ...this.#limit, cpuSeconds: this.#limit.cpuSeconds + seconds + rows * ROW_CPU_SECONDS };
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }
}

let prepared: ChildProcess | null = null;

/** Ready message of each process, awaited from the start of the process. */
const ready = new WeakMap<ChildProcess, Promise<unknown>>();

/** Returns the prepared process. Starts a new one if none is prepared, or if the model needs higher limits. */
function take(modelBytes: number): ChildProcess {
  const child =
    prepared && modelBytes <= PREPARED_FOR_BYTES ? prepared : start(Math.max(modelBytes, PREPARED_FOR_BYTES));
  if (child === prepared) prepared = null;
  child.ref();
  child.channel?.ref();
  return child;
}

function start(modelBytes: number): ChildProcess {
  const { memoryBytes, openCpuSeconds } = limitsFor(modelBytes);
  const child = startLimited(entryFile('inference/sandbox/probe-entry'), {
    // This limit takes effect only if the parent was killed and cannot watch the process. Registering a model sends a
    // few dozen requests.
    cpuSeconds: START_CPU_SECONDS + 30 * openCpuSeconds,
    memoryBytes,
    heapMb: 1024,
    // The process is short-lived, so it may use more memory to save garbage collections.
    flags: ['--max-semi-space-size=32'],
  });
  const isReady = answerOf(child, 'ready', { cpuSeconds: START_CPU_SECONDS, memoryBytes });
  isReady.catch(() => {});
  ready.set(child, isReady);
  return child;
}

async function ask<T extends ProbeAnswer['type']>(
  child: ChildProcess,
  request: ProbeRequest,
  type: T,
  limit: Limit,
): Promise<Extract<ProbeAnswer, { type: T }>> {
  const answer = answerOf(child, type, limit);
  child.send(request, (error) => {
    // The exit event that follows has a better reason than EPIPE.
    if (error) startTimer(() => child.kill('SIGKILL'), 100);
  });
  return answer;
}

function answerOf<T extends ProbeAnswer['type']>(
  child: ChildProcess,
  type: T,
  limit: Limit,
): Promise<Extract<ProbeAnswer, { type: T }>> {
  const { signal } = limit;
  return new Promise((resolve, reject) => {
    const refuse = (reason: string) => done(() => reject(new SluiceError('model_invalid', reason)));
    const onMessage = (message: ProbeAnswer) => {
      if (message.type === 'failed') done(() => reject(new SluiceError(message.code, message.message)));
      else if (message.type === type) done(() => resolve(message as Extract<ProbeAnswer, { type: T }>));
    };
    const onExit = (code: number | null, signal: string | null) =>
      refuse(`ONNX Runtime crashed its process on this model (${signal ?? `exit ${code}`})`);
    const onError = (error: Error) => refuse(`the probe process for models failed to start: ${error.message}`);
    const onAbort = () => {
      child.kill('SIGKILL');
      done(() =>
        reject(new SluiceError('cancelled', 'the trial of the model did not finish', { cause: signal?.reason })),
      );
    };
    const done = (settle: () => void) => {
      watch?.stop();
      child.off('message', onMessage).off('exit', onExit).off('error', onError);
      signal?.removeEventListener('abort', onAbort);
      settle();
    };
    let watch: Watch | null = null;
    if (child.exitCode !== null || child.signalCode !== null) onExit(child.exitCode, child.signalCode);
    else {
      child.on('message', onMessage).on('exit', onExit).on('error', onError);
      signal?.addEventListener('abort', onAbort, { once: true });
      if (signal?.aborted) onAbort();
      else if (child.pid !== undefined) watch = watchUsage(child, limit, refuse);
    }
  });
}
