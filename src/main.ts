#!/usr/bin/env node
// The program: makes Node keep the compiled code of its modules, starts what takes long, then runs the command line.
import { enableCompileCache } from 'node:module';
import path from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { cacheFolder } from './core/cache-folder.ts';
import { VERSION } from './core/version.ts';

/**
 * In a folder of the user's own: Node's default is one that all users of the machine write to. Where it cannot be written
 * nothing is kept; undefined: the user has no home.
 */
function codeFolder(): string | undefined {
  if (process.env.NODE_COMPILE_CACHE) return process.env.NODE_COMPILE_CACHE;
  try {
    return path.join(cacheFolder(process.env), 'code');
  } catch {
    return undefined;
  }
}

// In a checkout every thread strips types, in WebAssembly that calls JavaScript: V8 13.6 may crash if several threads
// compile those calls again.
if (import.meta.url.endsWith('.ts')) setFlagsFromString('--wasm-wrapper-tiering-budget=1000000000');

/** Keeps the compiled code of modules, and starts what takes long. */
async function prepare(): Promise<void> {
  const folder = codeFolder();
  if (folder !== undefined) {
    enableCompileCache(folder);
    // For the processes this one starts.
    process.env.NODE_COMPILE_CACHE = folder;
  }
  const [, , command = '', ...words] = process.argv;
  if (!['score', 'run'].includes(command) || words.some((w) => ['onnxruntime', '--help', '-h'].includes(w))) return;
  // Judging a model needs a second process, whose start takes as long as what this one loads until then.
  const { mayBeKept } = await import('./inference/sandbox/kept-verdicts.ts');
  if (!mayBeKept()) (await import('./inference/sandbox/probe.ts')).Probe.prepare();
  // The first worker loads as much as this thread does.
  else if (command === 'score') (await import('./engine/early-thread.ts')).startEarly(words);
}

/** The first process of a container gets no signal that it does not listen to: until a command does, one ends it. */
function endOnSignal(signal: 'SIGINT' | 'SIGTERM', code: number): void {
  process.on(signal, () => {
    if (process.listenerCount(signal) === 1) process.exit(code);
  });
}

if (process.pid === 1) {
  endOnSignal('SIGINT', 130);
  endOnSignal('SIGTERM', 143);
}

// Asked for by scripts that look after many machines: nothing else is loaded.
if (process.argv.length === 3 && ['--version', '-V'].includes(process.argv[2]!)) {
  process.stdout.on('error', () => {}).write(`${VERSION}\n`);
} else {
  await prepare();
  await import('./cli.ts');
}
