// Records the CPU seconds of each test file, its child processes included, for the summary at the end of a run (Linux only).
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, expect } from 'vitest';

/** Ticks per second of /proc/self/stat; 100 on every Linux that Node supports. */
const TICKS = 100;

afterAll(() => {
  const folder = process.env.SLUICE_CACHE;
  if (process.platform !== 'linux' || folder === undefined) return;
  // utime, stime, cutime, cstime: fields 14 to 17, counted after the name in brackets.
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]!.split(' ');
  const seconds = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS;
  mkdirSync(folder, { recursive: true });
  appendFileSync(path.join(folder, 'cpu-seconds.txt'), `${seconds} ${expect.getState().testPath}\n`);
});
