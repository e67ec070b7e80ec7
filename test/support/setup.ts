// Runs for every test file, also where files share a process: records its CPU seconds for the summary, and holds back its output unless
// one of its tests fails.
import { readFileSync } from 'node:fs';
import { afterAll, afterEach, expect } from 'vitest';
import { currentClock } from '../../src/core/clock.ts';
import { fieldsOfStat } from '../../src/core/processes.ts';
import { capture } from './captured-stream.ts';
import { chargeFile, endFile } from './file-end.ts';
import { CPU_FILE, leaveLine } from './tiers.ts';

/** Ticks per second of /proc/self/stat; 100 on every Linux that Node supports. */
const TICKS = 100;
/** Bytes of output that are kept of one file, the last ones. */
const MOST_HELD = 256 * 1024;

/** Child processes that were waited for included; null where there is no /proc. */
function cpuSeconds(): number | null {
  if (process.platform !== 'linux') return null;
  // utime, stime, cutime, cstime: fields 14 to 17.
  const times = fieldsOfStat(readFileSync('/proc/self/stat', 'utf8')).slice(11, 15);
  return times.reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS;
}

if (process.env.SLUICE_HOLD_OUTPUT) {
  const held: Buffer[] = [];
  let bytes = 0;
  let hasFailed = false;
  const hold = (chunk: Buffer): void => {
    held.push(chunk);
    bytes += chunk.length;
    while (bytes > MOST_HELD && held.length > 1) bytes -= held.shift()!.length;
  };
  const out = capture(process.stdout, hold);
  const errors = capture(process.stderr, hold);
  afterEach(({ task }) => {
    if (task.result?.state === 'fail') hasFailed = true;
  });
  afterAll(() => {
    out.restore();
    errors.restore();
    if (hasFailed && held.length > 0) {
      errors.write(`Output of ${expect.getState().testPath}:\n${Buffer.concat(held)}\n`);
    }
  });
}

afterAll(() => {
  const seconds = cpuSeconds();
  if (seconds !== null) leaveLine(CPU_FILE, chargeFile(seconds));
});

/** What the next file in this process would find changed. */
const stateOfProcess = () => ({ environment: { ...process.env }, folder: process.cwd(), clock: currentClock() });
const before = stateOfProcess();

// Hooks run in reverse order, so this one runs after those of the file and before those above.
afterAll(async () => {
  await endFile();
  // A file that fails here needs a process of its own: NEEDS_PROCESS in vitest.config.ts.
  if (process.env.SLUICE_SHARES_PROCESS) expect(stateOfProcess()).toEqual(before);
});
