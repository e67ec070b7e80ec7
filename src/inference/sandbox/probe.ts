// Runs a model in a child process, so that a crash or an endless loop inside ONNX Runtime becomes an error with a reason.
import { type ChildProcess, fork } from 'node:child_process';
import { SluiceError } from '../../core/errors.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { EncodedInput } from '../encode/encoder.ts';
import type { EnginePolicy, Verdict } from '../evaluate/choose-evaluator.ts';
import type { NativePlan } from '../evaluate/native/native-evaluator.ts';
import type { OutputTensor } from '../evaluate/session.ts';
import type { ProbeAim, ProbeAnswer, ProbeOpened, ProbeRequest } from './probe-protocol.ts';

const START_MS = 60_000;

export class Probe {
  readonly opened: ProbeOpened;
  readonly #child: ChildProcess;
  readonly #limitMs: number;

  private constructor(child: ChildProcess, opened: ProbeOpened, limitMs: number) {
    this.#child = child;
    this.opened = opened;
    this.#limitMs = limitMs;
  }

  /**
   * Starts a process and loads the model in it. A request that takes longer than `limitMs` milliseconds ends the process.
   * @throws SluiceError model_invalid: damaged, refused, crashed or hung
   */
  static async open(bytes: Uint8Array, limitMs = 30_000): Promise<Probe> {
    const child = take();
    try {
      await ready.get(child);
      const opened = await ask(child, { type: 'open', bytes }, 'opened', limitMs);
      return new Probe(child, opened, limitMs);
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
  }

  /**
   * Compares both evaluators in a process that ends afterwards, which returns the memory of ONNX Runtime and of compiling the
   * model. `onPlan` gets the compiled model before it is compared, where it can be
   * compiled; `priority` is the one the caller waits for.
   * @throws SluiceError model_invalid | model_hash_mismatch
   */
  static async verdict(
    model: ModelPackage,
    policy: EnginePolicy,
    onPlan: (plan: NativePlan) => void,
    priority: ProbeAim = 'verdict',
    limitMs = 120_000,
  ): Promise<Verdict> {
    const child = take();
    const listen = (message: ProbeAnswer): void => {
      if (message.type === 'compiled') onPlan(message.plan);
    };
    try {
      await ready.get(child);
      child.on('message', listen);
      return (await ask(child, { type: 'verdict', model, policy, priority }, 'judged', limitMs)).verdict;
    } finally {
      child.off('message', listen);
      child.kill('SIGKILL');
    }
  }

  /** Starts the process of the next probe ahead of time, so that its startup overlaps with other work. */
  static prepare(): void {
    if (prepared) return;
    prepared = start();
    // It must not keep the parent alive if it is never used.
    prepared.unref();
    prepared.channel?.unref();
  }

  /** Ends a prepared process that was not used. */
  static dismiss(): void {
    prepared?.kill('SIGKILL');
    prepared = null;
  }

  /** Runs each range of rows by itself; per range the tensors of `outputs`. @throws SluiceError model_failed | model_invalid */
  async run(
    inputs: readonly EncodedInput[],
    ranges: readonly (readonly [number, number])[],
    outputs: string[],
  ): Promise<OutputTensor[][]> {
    return (await ask(this.#child, { type: 'run', inputs, ranges, outputs }, 'ran', this.#limitMs)).results;
  }

  /** Rows a second of one thread, measured for about `ms` milliseconds, and the memory of the process in bytes. */
  async bench(
    inputs: readonly EncodedInput[],
    rows: number,
    outputs: string[],
    ms: number,
  ): Promise<{ rowsPerSecond: number; memoryBytes: number }> {
    return ask(this.#child, { type: 'bench', inputs, rows, outputs, ms }, 'benched', this.#limitMs + ms);
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }
}

let prepared: ChildProcess | null = null;

/** Process → its ready message, awaited from its start on. */
const ready = new WeakMap<ChildProcess, Promise<unknown>>();

function take(): ChildProcess {
  const child = prepared ?? start();
  prepared = null;
  child.ref();
  child.channel?.ref();
  return child;
}

function start(): ChildProcess {
  const own = import.meta.url.endsWith('.ts') ? './probe-entry.ts' : './probe-entry.js';
  const child = fork(new URL(own, import.meta.url), {
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    // It is short-lived: fewer garbage collections are worth some memory.
    execArgv: ['--max-old-space-size=1024', '--max-semi-space-size=32', '--disable-warning=ExperimentalWarning'],
  });
  const isReady = answerOf(child, 'ready', START_MS);
  isReady.catch(() => {});
  ready.set(child, isReady);
  return child;
}

async function ask<T extends ProbeAnswer['type']>(
  child: ChildProcess,
  request: ProbeRequest,
  type: T,
  limitMs: number,
): Promise<Extract<ProbeAnswer, { type: T }>> {
  const answer = answerOf(child, type, limitMs);
  child.send(request, (error) => {
    // The exit event that follows has a better reason than EPIPE.
    if (error) setTimeout(() => child.kill('SIGKILL'), 100);
  });
  return answer;
}

function answerOf<T extends ProbeAnswer['type']>(
  child: ChildProcess,
  type: T,
  limitMs: number,
): Promise<Extract<ProbeAnswer, { type: T }>> {
  return new Promise((resolve, reject) => {
    const refuse = (reason: string) => done(() => reject(new SluiceError('model_invalid', reason)));
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      refuse(`ONNX Runtime does not come to an end with this model within ${limitMs / 1000} s`);
    }, limitMs);
    const onMessage = (message: ProbeAnswer) => {
      if (message.type === 'failed') done(() => reject(new SluiceError(message.code, message.message)));
      else if (message.type === type) done(() => resolve(message as Extract<ProbeAnswer, { type: T }>));
    };
    const onExit = (code: number | null, signal: string | null) =>
      refuse(`ONNX Runtime brought its process down on this model (${signal ?? `exit ${code}`})`);
    const onError = (error: Error) => refuse(`the process that tries models does not start: ${error.message}`);
    const done = (settle: () => void) => {
      clearTimeout(timer);
      child.off('message', onMessage).off('exit', onExit).off('error', onError);
      settle();
    };
    if (child.exitCode !== null || child.signalCode !== null) onExit(child.exitCode, child.signalCode);
    else child.on('message', onMessage).on('exit', onExit).on('error', onError);
  });
}
