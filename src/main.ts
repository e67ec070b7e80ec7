#!/usr/bin/env node
// The program: makes Node keep the compiled code of its modules, then runs the command line.
import { enableCompileCache } from 'node:module';
import { homedir } from 'node:os';
import path from 'node:path';

/**
 * In a folder of the user's own: Node's default is one that all users of the machine write to. Where it cannot be written
 * nothing is kept; undefined: the user has no home.
 */
function cacheFolder(): string | undefined {
  const { NODE_COMPILE_CACHE: named, XDG_CACHE_HOME: caches } = process.env;
  if (named) return named;
  try {
    return path.join(caches ?? path.join(homedir(), '.cache'), 'sluice', 'code');
  } catch {
    return undefined;
  }
}

const cache = cacheFolder();
if (cache !== undefined) {
  enableCompileCache(cache);
  // For the processes this one starts.
  process.env.NODE_COMPILE_CACHE = cache;
}

await import('./cli.ts');
