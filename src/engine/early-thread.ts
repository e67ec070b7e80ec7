// A worker thread that starts before its model is known. The thread loads the program while the main thread reads
// command line, configuration and model.
import { statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { inBackground } from '../core/async.ts';
import { entryFile } from '../core/entry-file.ts';
import { memoPool, releaseMemoThread } from '../inference/explain/memo-pool.ts';

/** Inputs up to this raw size in bytes need no workers: scoring them takes less time than starting a worker. */
export const FEW_BYTES = 256 * 1024;
/** Heap of a worker in MB. Models with large category files need more. */
export const DEFAULT_HEAP_MB = 192;
/** The module that workers start with. */
export const WORKER_ENTRY = entryFile('engine/worker-entry');

let early: { worker: Worker; gone: () => void } | null = null;

/**
 * Starts a thread if the arguments of `sluice score` name an input that is large enough for workers. The thread does
 * not keep the process alive.
 */
export function startEarly(words: readonly string[]): void {
  if (early || !words.some(isMuch)) return;
  const worker = newThread(WORKER_ENTRY, DEFAULT_HEAP_MB);
  worker.unref();
  const gone = () => {
    early = null;
  };
  worker.on('error', gone).on('exit', gone);
  early = { worker, gone };
}

/**
 * Whether an argument is standard input or a large file. The argument can be any text, even one that is not a valid
 * file name.
 */
function isMuch(word: string): boolean {
  if (word.startsWith('-')) return word === '-';
  try {
    return statSync(word).size > FEW_BYTES;
  } catch {
    return false;
  }
}

/** Returns the thread that was started early if its options match; otherwise starts a thread. */
export function threadOf(entry: URL, heapMb: number): Worker {
  if (!early) return newThread(entry, heapMb);
  const { worker, gone } = early;
  early = null;
  worker.off('error', gone).off('exit', gone);
  if (entry.href !== WORKER_ENTRY.href || heapMb !== DEFAULT_HEAP_MB) {
    inBackground('ending a thread', () => worker.terminate());
    return newThread(entry, heapMb);
  }
  worker.ref();
  return worker;
}

function newThread(entry: URL, heapMb: number): Worker {
  memoPool();
  const worker = new Worker(entry, {
    execArgv: [],
    resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: heapMb },
  });
  // The ID is read now, because a thread that has ended has none.
  const { threadId } = worker;
  worker.once('exit', () => releaseMemoThread(threadId));
  return worker;
}
