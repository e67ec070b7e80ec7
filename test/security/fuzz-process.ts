// Feeds one reader with changed files: `node fuzz-process.ts READER SEED FROM TO`. Tells how far it is on standard output, so that a
// parent can name the file that a process hangs or dies on.
import { setImmediate } from 'node:timers/promises';
import { Dice } from './mutate.ts';
import { READERS } from './readers.ts';

const [reader, seed, from, to] = process.argv.slice(2) as [string, string, string, string];
const attempt = READERS[reader]!();

let slowest = { ms: 0, index: -1 };
for (let index = Number(from); index < Number(to); index++) {
  if (index % 64 === 0) {
    process.stdout.write(`${JSON.stringify({ at: index, rss: process.memoryUsage.rss() })}\n`);
    // Buffers are freed between the turns of the event loop only.
    await setImmediate();
  }
  const began = performance.now();
  try {
    await attempt(new Dice(Number(seed), index));
  } catch (error) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    process.stdout.write(`${JSON.stringify({ failed: index, error: text.slice(0, 2000) })}\n`);
  }
  const ms = performance.now() - began;
  if (ms > slowest.ms) slowest = { ms, index };
}
process.stdout.write(`${JSON.stringify({ done: Number(to), rss: process.resourceUsage().maxRSS * 1024, slowest })}\n`);
