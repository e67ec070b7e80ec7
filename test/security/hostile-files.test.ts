// Hostile text files end with a coded error within a bound on memory.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, test } from 'vitest';
import { costOf } from '../support/cost-of.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const MOST_MEMORY_MB = 512;
const folder = mkdtempSync(path.join(tmpdir(), 'hostile-files-'));
afterAll(() => rmSync(folder, { recursive: true }));

const FILES: readonly [name: string, bytes: () => Uint8Array, code: string][] = [
  ['zeros.csv.gz', () => gzipSync(Buffer.alloc(200_000_000, '0'), { level: 1 }), 'limit_exceeded'],
  ['empty-lines.csv', () => Buffer.alloc(10_000_000, '\n'), 'empty_input'],
  ['long-header.csv', () => Buffer.from(`${'a'.repeat(1_000_000)}\n1\n`), 'header_mismatch'],
];

test.each(FILES)(
  '%s',
  async (name, bytes, code) => {
    const file = path.join(folder, name);
    writeFileSync(file, bytes());
    const score = [process.execPath, path.join(ROOT, 'src/main.ts'), 'score', file, '--model', 'credit-default'];
    const cost = await costOf([...score, '-o', path.join(folder, `${name}.out.ndjson`)]);
    expect(cost.code, cost.stderr).toBe(1);
    expect(cost.stderr).toContain(`[${code}]`);
    expect(cost.memoryMb).toBeLessThan(MOST_MEMORY_MB);
  },
  60_000,
);
