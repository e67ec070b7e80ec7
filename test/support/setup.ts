// Runs for every test file, also where files share a process: records its CPU seconds for the summary, and holds back its output unless
// one of its tests fails.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, expect } from 'vitest';
import { currentClock } from '../../src/core/clock.ts';
import { useEntriesOf } from '../../src/core/entry-file.ts';
import { fieldsOfStat } from '../../src/core/processes.ts';
import { capture } from './captured-stream.ts';
import { chargeFile, endFile } from './file-end.ts';
import { CPU_FILE, leaveLine } from './tiers.ts';

// Threads and processes that tests start by functions run the built program too: a start takes a third of the CPU time.
const built = process.env.SLUICE_TEST_MAIN;
if (built) useEntriesOf(new URL('.', pathToFileURL(built)));

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

/** Modules of Node whose functions tests replace. */
const OF_NODE = ['fs', 'fs/promises', 'http', 'https', 'net', 'tls', 'dns', 'crypto', 'zlib', 'os', 'child_process'];
const ownRequire = createRequire(import.meta.url);

/** The functions of modules of others that are loaded. */
function functionsOfOthers(): Map<object, Map<string, unknown>> {
  const loaded = Object.values(ownRequire.cache).map((module) => module?.exports);
  const modules = [...OF_NODE.map((name) => ownRequire(name)), ...loaded].filter((of) => of && typeof of === 'object');
  return new Map(
    modules.map((of) => {
      const fields = Object.entries(Object.getOwnPropertyDescriptors(of));
      return [of, new Map(fields.filter(([, { value }]) => typeof value === 'function').map(([k, v]) => [k, v.value]))];
    }),
  );
}

/** Names of functions of modules that were loaded before and have been replaced since. */
function replacedSince(before: ReturnType<typeof functionsOfOthers>): string[] {
  const now = functionsOfOthers();
  return [...before].flatMap(([of, functions]) =>
    [...functions].filter(([name, was]) => now.get(of)?.get(name) !== was).map(([name]) => name),
  );
}

/** What the next file in this process would find changed. */
const stateOfProcess = () => ({
  environment: { ...process.env },
  folder: process.cwd(),
  clock: currentClock(),
  mask: process.umask(),
  exitCode: process.exitCode,
  signals: process.listenerCount('SIGTERM') + process.listenerCount('SIGINT'),
});
const before = stateOfProcess();
const functionsBefore = process.env.SLUICE_SHARES_PROCESS ? functionsOfOthers() : null;

// Hooks run in reverse order, so this one runs after those of the file and before those above.
afterAll(async () => {
  await endFile();
  // A file that fails here needs a process of its own: NEEDS_PROCESS in vitest.config.ts.
  if (!functionsBefore) return;
  expect(stateOfProcess()).toEqual(before);
  expect(replacedSince(functionsBefore), 'functions of other modules that are still replaced').toEqual([]);
});
