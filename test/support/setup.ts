// Runs in every test file: records its CPU seconds for the summary, and holds back what it prints unless one of its tests fails.
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, expect } from 'vitest';

/** Ticks per second of /proc/self/stat; 100 on every Linux that Node supports. */
const TICKS = 100;
/** Bytes of output that are kept of one file, the last ones. */
const MOST_HELD = 256 * 1024;

/** Child processes that were waited for included; null where there is no /proc. */
function cpuSeconds(): number | null {
  if (process.platform !== 'linux') return null;
  // utime, stime, cutime, cstime: fields 14 to 17, counted after the name in brackets.
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]!.split(' ');
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS;
}

if (process.env.SLUICE_HOLD_OUTPUT) {
  let held: Buffer[] = [];
  let bytes = 0;
  let hasFailed = false;
  const hold = (stream: NodeJS.WriteStream): typeof process.stderr.write => {
    const write = stream.write.bind(stream);
    stream.write = ((chunk: Uint8Array | string, ...more: unknown[]) => {
      const encoding = typeof more[0] === 'string' ? (more[0] as BufferEncoding) : 'utf8';
      const added = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk);
      held.push(added);
      bytes += added.length;
      while (bytes > MOST_HELD && held.length > 1) bytes -= held.shift()!.length;
      const done = more.at(-1);
      if (typeof done === 'function') done();
      return true;
    }) as typeof stream.write;
    return write;
  };
  hold(process.stdout);
  const show = hold(process.stderr);
  afterEach(({ task }) => {
    if (task.result?.state === 'fail') hasFailed = true;
  });
  afterAll(() => {
    if (hasFailed && held.length > 0) show(`Output of ${expect.getState().testPath}:\n${Buffer.concat(held)}\n`);
    held = [];
  });
}

afterAll(() => {
  const folder = process.env.SLUICE_CACHE;
  const seconds = cpuSeconds();
  if (seconds === null || folder === undefined) return;
  mkdirSync(folder, { recursive: true });
  appendFileSync(path.join(folder, 'cpu-seconds.txt'), `${seconds} ${expect.getState().testPath}\n`);
});
