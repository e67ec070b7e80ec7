#!/usr/bin/env node
// The program: enables the compile cache of Node, starts slow components early, and runs the command line.
import './core/no-telemetry.ts';
import { enableCompileCache } from 'node:module';
import path from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { cacheFolder } from './core/cache-folder.ts';
import { VERSION } from './core/version.ts';

/**
 * The folder of the compile cache, which belongs to the current user. Every user of the machine can write to Node's
 * default folder. An unwritable folder disables the cache. Undefined if the user has no home folder.
 */
function codeFolder(): string | undefined {
  if (process.env.NODE_COMPILE_CACHE) return process.env.NODE_COMPILE_CACHE;
  try {
    return path.join(cacheFolder(process.env), 'code');
  } catch {
    return undefined;
  }
}

// In a checkout, every thread strips types with a WebAssembly module that calls JavaScript. V8 13.6 can crash if
// several threads recompile the wrappers of these calls.
if (import.meta.url.endsWith('.ts')) setFlagsFromString('--wasm-wrapper-tiering-budget=1000000000');

/** Enables the compile cache and starts slow components early. */
async function prepare(): Promise<void> {
  const folder = codeFolder();
  if (folder !== undefined) {
    enableCompileCache(folder);
    // Child processes inherit the cache folder.
    process.env.NODE_COMPILE_CACHE = folder;
  }
  const [, , command = '', ...words] = process.argv;
  if (!['score', 'run'].includes(command) || words.some((w) => ['onnxruntime', '--help', '-h'].includes(w))) return;
  // Comparing evaluators needs a second process. Starting it takes as long as importing the modules of this process, so
  // both happen at the same time.
  const { mayBeKept } = await import('./inference/sandbox/kept-verdicts.ts');
  if (!mayBeKept()) (await import('./inference/sandbox/probe.ts')).Probe.prepare();
  // The first worker imports as many modules as this thread, so its thread is started now.
  else if (command === 'score') (await import('./engine/early-thread.ts')).startEarly(words);
}

/**
 * In a container, the kernel delivers signals to the first process only if the process has a handler. This handler
 * exits the process, until a command installs a handler of its own.
 */
function endOnSignal(signal: 'SIGINT' | 'SIGTERM', code: number): void {
  process.on(signal, () => {
    if (process.listenerCount(signal) === 1) process.exit(code);
  });
}

if (process.pid === 1) {
  endOnSignal('SIGINT', 130);
  endOnSignal('SIGTERM', 143);
}

// Scripts that manage many machines request the version often, so nothing else is imported.
if (process.argv.length === 3 && ['--version', '-V'].includes(process.argv[2]!)) {
  process.stdout.on('error', () => {}).write(`${VERSION}\n`);
} else {
  await prepare();
  await import('./cli.ts');
  if (process.argv[2] === 'run') (await import('./doors/commands/signals.ts')).programEnded();
}
