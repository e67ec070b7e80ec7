// Changed files of every format that strangers may send: each is read or refused, and none takes long, much memory or the process.
import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { expect, test } from 'vitest';
import { SEED, times } from '../support/tiers.ts';
import { Dice } from './mutate.ts';
import { READERS } from './readers.ts';

/** Files of each reader; a campaign reads a million. */
const FILES = times('fuzz', { quick: 200, check: 250, campaigns: 1_000_000 });
/** No process may report nothing for so long: it reports every 64 files. */
const HANG_MS = 120_000;
const MOST_BYTES = 512 * 1024 * 1024;

interface Report {
  at?: number;
  rss?: number;
  failed?: number;
  error?: string;
  done?: number;
}

interface Outcome {
  done: number;
  most: number;
  failures: string[];
}

/** Runs one process; it ends by itself, or is killed where it hangs or takes too much memory. */
async function feed(reader: string, from: number, to: number): Promise<Outcome> {
  const program = path.join(import.meta.dirname, 'fuzz-process.ts');
  const args = ['--max-old-space-size=700', program, reader, String(SEED), String(from), String(to)];
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const outcome: Outcome = { done: from, most: 0, failures: [] };
  let last = from;
  let stderr = '';
  child.stderr!.on('data', (text: Buffer) => {
    stderr = (stderr + text.toString()).slice(-1000);
  });
  let timer: NodeJS.Timeout | undefined;
  const watch = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      outcome.failures.push(`hangs at ${last}..${last + 64}`);
      child.kill('SIGKILL');
    }, HANG_MS);
  };
  watch();
  for await (const line of createInterface({ input: child.stdout! })) {
    watch();
    const report = JSON.parse(line) as Report;
    last = report.at ?? last;
    outcome.most = Math.max(outcome.most, report.rss ?? 0);
    outcome.done = report.done ?? last;
    if (report.failed !== undefined) outcome.failures.push(`${report.failed}: ${report.error}`);
    if ((report.rss ?? 0) > MOST_BYTES) {
      outcome.failures.push(`takes ${report.rss} bytes at ${last}..${last + 64}`);
      child.kill('SIGKILL');
    }
  }
  clearTimeout(timer);
  if (outcome.done < to && outcome.failures.length === 0)
    outcome.failures.push(`ends at ${last}..${last + 64}: ${stderr}`);
  return outcome;
}

test.each(['arrow', 'parquet', 'avro', 'protobuf', 'onnx', 'yaml'])('%s', async (reader) => {
  const { done, most, failures } = await feed(reader, 0, FILES);
  console.log(`${reader}: ${done} files of seed ${SEED}, at most ${Math.round(most / 1e6)} MB`);
  expect(failures).toEqual([]);
  expect(done).toBe(FILES);
});

// Files that campaigns found: seed and number.
test.each([['parquet', 20_261_125, 38_972, 'an annotation that the type of its column cannot have']])(
  '%s %i/%i: %s',
  async (reader, seed, index) => {
    await expect(READERS[reader]!()(new Dice(seed, index))).resolves.toBeUndefined();
  },
);
