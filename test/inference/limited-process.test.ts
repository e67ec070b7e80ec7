// What a process may take is CPU time and memory, not time on the clock; and it does not outlive whoever started it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startLimited, watchUsage } from '../../src/inference/sandbox/limited-process.ts';
import type { Order } from '../support/limited-child.ts';
import { testNeeding } from '../support/tools.ts';

const ENTRY = path.resolve('test/support/limited-child.ts');
const MB = 1024 * 1024;
const MEMORY = 512 * MB;

/** What the process comes to: what it says, or why it was ended. */
async function carriedOut(order: Order, cpuSeconds: number): Promise<string> {
  const child = startLimited(new URL(`file://${ENTRY}`), { heapMb: 64, memoryBytes: MEMORY, cpuSeconds: 60 });
  onTestFinished(() => void child.kill('SIGKILL'));
  return new Promise((resolve) => {
    // Loading the program takes CPU time of its own.
    const watch = watchUsage(child, { cpuSeconds, memoryBytes: MEMORY }, resolve);
    child.on('message', (said) => {
      watch.stop();
      resolve(String(said));
    });
    child.on('exit', (code, signal) => setImmediate(() => resolve(`exit ${signal ?? code}`)));
    child.send(order);
  });
}

test('one that waits longer than its CPU time is not ended', async () => {
  expect(await carriedOut({ sleep: 1500 }, 1)).toBe('done');
});

test('one that takes more CPU time is', async () => {
  expect(await carriedOut({ burn: 600_000 }, 1)).toContain('within 1 s of CPU time');
});

test('one that takes little memory gets it, one that takes much does not', async () => {
  expect(await carriedOut({ take: 100 * MB }, 30)).toBe('done');
  expect(await carriedOut({ take: 3000 * MB }, 30)).not.toBe('done');
});

testNeeding(['setpriv'], 'one in an endless loop ends with its parent, however that ends', async () => {
  const parent = spawn(process.execPath, [ENTRY, 'parent'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [text] = (await once(parent.stdout, 'data')) as [Buffer];
  const proc = `/proc/${text.toString().trim()}`;
  expect(existsSync(proc)).toBe(true);
  parent.kill('SIGKILL');
  await expect.poll(() => existsSync(proc)).toBe(false);
});
