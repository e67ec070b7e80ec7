// Runs a model in a child process, so that a crash or an endless loop inside ONNX Runtime becomes an error with a reason.
import type { ChildProcess } from 'node:child_process';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { startTimer } from '../../core/clock.ts';
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
 * What the caller waits for. `verdict`: a large model is compiled and opened in ONNX Runtime in parallel; `plan`:
 * sequentially, with less memory.
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
  /** Loading time, ms. */
  loadMs: number;
  /** Growth of the process by loading, bytes. */
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
/** Model size for which a process is prepared, because the model is not known yet. */
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
 * Limits of a comparison: compiling needs additional time and memory. A graph that cannot be compiled is not run in
 * this process.
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
   * ends the process; so does `signal`.
   * @throws SluiceError model_invalid (damaged, rejected, crashed or hung) | cancelled
   */
  static async open(bytes: Uint8Array, signal?: AbortSignal): Promise<Probe> {
    // The prepared process is not used: its limits are too wide for running an unknown graph.
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
   * Compares both evaluators in a process that ends afterwards, which frees the memory of ONNX Runtime and of
   * compilation. `onPlan` receives the compiled model, if it can be compiled, before the comparison. `priority`: the
   * result that the caller waits for.
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
   * Starts the process of the next probe in advance, so that its startup overlaps with other work. Does nothing if
   * verdicts are cached, because no probe may be needed.
   */
  static prepare(): void {
    if (prepared || mayBeKept()) return;
    prepared = start(PREPARED_FOR_BYTES);
    // An unused process must not keep the parent alive.
    prepared.unref();
    prepared.channel?.unref();
  }

  /** Ends a prepared process that was not used. */
  static dismiss(): void {
    prepared?.kill('SIGKILL');
    prepared = null;
  }

  /**
   * Runs each range of rows separately; returns the tensors of `outputs` for each range. @throws SluiceError
   * model_failed | model_invalid
   */
  async run(
    inputs: readonly EncodedInput[],
    ranges: readonly (readonly [number, number])[],
    outputs: string[],
  ): Promise<OutputTensor[][]> {
    const rows = ranges.reduce((n, [from, to]) => n + to - from, 0);
    return (await ask(this.#child, { type: 'run', inputs, ranges, outputs }, 'ran', this.#limitFor(rows))).results;
  }

  /** Rows per second in one thread, measured for about `ms` milliseconds, and the memory of the process, bytes. */
  async bench(
    inputs: readonly EncodedInput[],
    rows: number,
    outputs: string[],
    ms: number,
  ): Promise<{ rowsPerSecond: number; memoryBytes: number }> {
    const limit = this.#limitFor(rows, ms / 1000);
    return ask(this.#child, { type: 'bench', inputs, rows, outputs, ms }, 'benched', limit);
  }

  /** Adds CPU time for the rows. A graph that never ends is detected with the first few rows. */
  #limitFor(rows: number, seconds = 0): Limit {
    return { ...this.#limit, cpuSeconds: this.#limit.cpuSeconds + seconds + rows * ROW_CPU_SECONDS };
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }
}

let prepared: ChildProcess | null = null;

/** Process → its ready message, awaited from its start. */
const ready = new WeakMap<ChildProcess, Promise<unknown>>();

/** The prepared process, or a new one for a model that needs higher limits. */
function take(modelBytes: number): ChildProcess {
  const child =
    prepared && modelBytes <= PREPARED_FOR_BYTES ? prepared : start(Math.max(modelBytes, PREPARED_FOR_BYTES));
  if (child === prepared) prepared = null;
  child.ref();
  child.channel?.ref();
  return child;
}

function start(modelBytes: number): ChildProcess {
  const own = import.meta.url.endsWith('.ts') ? './probe-entry.ts' : './probe-entry.js';
  const { memoryBytes, openCpuSeconds } = limitsFor(modelBytes);
  const child = startLimited(new URL(own, import.meta.url), {
    // Applies only if the parent was killed and cannot watch. Registering a model sends some dozen requests.
    cpuSeconds: START_CPU_SECONDS + 30 * openCpuSeconds,
    memoryBytes,
    heapMb: 1024,
    // The process is short-lived, so fewer garbage collections are worth some memory.
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
    // The following exit event has a better reason than EPIPE.
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
