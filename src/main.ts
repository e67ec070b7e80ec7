#!/usr/bin/env node
// The program: enables Node's compile cache, starts slow components early, then runs the command line.
import { enableCompileCache } from 'node:module';
import path from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { cacheFolder } from './core/cache-folder.ts';
import { VERSION } from './core/version.ts';

/**
 * Compile cache in a folder of the current user; Node's default folder can be written by every user of the machine. An
 * unwritable folder disables the cache. undefined: the user has no home folder.
 */
function codeFolder(): string | undefined {
  if (process.env.NODE_COMPILE_CACHE) return process.env.NODE_COMPILE_CACHE;
  try {
    return path.join(cacheFolder(process.env), 'code');
  } catch {
    return undefined;
  }
}

// In a checkout every thread strips types with WebAssembly that calls JavaScript. V8 13.6 can crash if several threads recompile those
// calls.
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
  // Comparing evaluators needs a second process. It takes as long to start as the modules that this process loads meanwhile.
  const { mayBeKept } = await import('./inference/sandbox/kept-verdicts.ts');
  if (!mayBeKept()) (await import('./inference/sandbox/probe.ts')).Probe.prepare();
  // The first worker loads as many modules as this thread.
  else if (command === 'score') (await import('./engine/early-thread.ts')).startEarly(words);
}

/**
 * The kernel does not deliver signals without a handler to the first process of a container. This handler exits the
 * process until a command installs its own handler.
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

// Scripts that manage many machines request the version often, so nothing else is loaded.
if (process.argv.length === 3 && ['--version', '-V'].includes(process.argv[2]!)) {
  process.stdout.on('error', () => {}).write(`${VERSION}\n`);
} else {
  await prepare();
  await import('./cli.ts');
}
