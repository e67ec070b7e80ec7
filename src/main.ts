#!/usr/bin/env node
// The program: makes Node keep the compiled code of its modules, then runs the command line.
import { enableCompileCache } from 'node:module';
import { homedir } from 'node:os';
import path from 'node:path';

// In a folder of the user's own: the default is one that all users of the machine write to. Where it cannot be written
// nothing is kept.
const cache =
  process.env.NODE_COMPILE_CACHE ??
  path.join(process.env.XDG_CACHE_HOME ?? path.join(homedir(), '.cache'), 'sluice', 'code');
enableCompileCache(cache);
// For the processes this one starts.
process.env.NODE_COMPILE_CACHE = cache;

await import('./cli.ts');
