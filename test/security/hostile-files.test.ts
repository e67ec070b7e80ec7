// Hostile files end with a coded error within a bound on memory, and nothing else of the run is lost.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, test } from 'vitest';
import { MAIN } from '../support/cli.ts';
import { costOf } from '../support/cost-of.ts';
import {
  type ColumnPages,
  codePage,
  dictionaryPage,
  parquetFile,
  plainText,
  textPage,
  varint,
} from '../support/parquet-pieces.ts';
import { campaignTest, checkTest, TIER, testOfMany } from '../support/tiers.ts';
import { attacksWith } from './attacks.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const MOST_MEMORY_MB = 512;
const folder = mkdtempSync(path.join(tmpdir(), 'hostile-files-'));
afterAll(() => rmSync(folder, { recursive: true }));

const MIB = 2 ** 20;
const NAMES = readFileSync(path.join(ROOT, 'src/bundled/credit-default/1/selftest.csv'), 'utf8')
  .split('\n')[0]!
  .split(',')
  .filter((name) => name !== 'ok');

/** The columns of the model, all of one kind. */
const columns = (rows: number, of: () => Omit<ColumnPages, 'name'>): Buffer =>
  parquetFile(
    rows,
    NAMES.map((name) => ({ name, ...of() })),
  );
const nulls = (rows: number) => ({ pages: textPage(rows, null) });
const first = (rows: number, one: Omit<ColumnPages, 'name'>): Buffer =>
  parquetFile(
    rows,
    NAMES.map((name, i) => ({ name, ...(i === 0 ? one : nulls(rows)) })),
  );
const word = (bytes: number) => plainText(Buffer.alloc(bytes, 'x'));

const FILES: readonly [name: string, bytes: () => Uint8Array, code: string][] = [
  ['zeros.csv.gz', () => gzipSync(Buffer.alloc(200_000_000, '0'), { level: 1 }), 'limit_exceeded'],
  ['empty-lines.csv', () => Buffer.alloc(10_000_000, '\n'), 'empty_input'],
  ['long-header.csv', () => Buffer.from(`${'a'.repeat(1_000_000)}\n1\n`), 'header_mismatch'],
  ['nulls.parquet', () => columns(10, () => nulls(10)), 'nothing_scored'],
  ['page-claims-2-gib.parquet', () => first(1, { pages: textPage(1, word(10), 2 ** 31 - 1) }), 'limit_exceeded'],
  ['page-of-63-mib.parquet', () => first(1, { pages: textPage(1, word(63 * MIB)) }), 'nothing_scored'],
  ['pages-of-60-mib.parquet', () => columns(1, () => ({ pages: textPage(1, word(60 * MIB)) })), 'limit_exceeded'],
  [
    'word-of-60-mib.parquet',
    () => first(100_000, { dictionary: dictionaryPage(1, word(60 * MIB)), pages: codePage(100_000) }),
    'nothing_scored',
  ],
  [
    'dictionaries-of-60-mib.parquet',
    () => columns(10, () => ({ dictionary: dictionaryPage(1, word(60 * MIB)), pages: codePage(10) })),
    'limit_exceeded',
  ],
  [
    'four-million-words.parquet',
    () => first(10, { dictionary: dictionaryPage(4_000_000, Buffer.alloc(16_000_000)), pages: codePage(10) }),
    'nothing_scored',
  ],
  ['page-of-2-billion-rows.parquet', () => columns(2 ** 31 - 1, () => nulls(2 ** 31 - 1)), 'limit_exceeded'],
  ['footer-list.parquet', () => withFooter(Buffer.from([0x29, 0xfc, ...varint(2 ** 30)])), 'truncated_input'],
  ['footer-depth.parquet', () => withFooter(Buffer.alloc(10_000, 0x1c)), 'truncated_input'],
  ['footer-number.parquet', () => withFooter(Buffer.alloc(2_000_000, 0x85)), 'truncated_input'],
];

function withFooter(footer: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(footer.length);
  return Buffer.concat([Buffer.from('PAR1'), footer, length, Buffer.from('PAR1')]);
}

const commandFor = (input: string, output: string): string[] =>
  [process.execPath, MAIN, 'score', input, '-m', 'credit-default', '-o', output]; // biome-ignore format: one line
const score = (input: string, output: string) => costOf(commandFor(input, output));

/** One of each kind: text, pages, dictionaries, numbers of rows, footers. */
const IN_CHECK = ['zeros.csv.gz', 'long-header.csv', 'page-claims-2-gib.parquet', 'word-of-60-mib.parquet', 'page-of-2-billion-rows.parquet', 'footer-list.parquet', 'footer-depth.parquet']; // biome-ignore format: one line
for (const [name, bytes, code] of FILES) {
  const at = IN_CHECK.indexOf(name);
  (at >= 0 ? testOfMany(at, 3) : campaignTest)(name, async () => {
    const file = path.join(folder, name);
    writeFileSync(file, bytes());
    const cost = await score(file, path.join(folder, `${name}.out.ndjson`));
    expect(cost.code, cost.stderr).toBe(1);
    expect(cost.stderr).toContain(`[${code}]`);
    expect(cost.memoryMb).toBeLessThan(MOST_MEMORY_MB);
  });
}

/** Scored in the check, too: 60 MiB of words, and rows that refer to them. */
const ARROW_IN_CHECK = ['a dictionary of 60 MiB extended 100 times'];
const MOST_CPU_SECONDS = 40;
const ARROW = attacksWith(Object.fromEntries(NAMES.map((name) => [name, 1]))).filter(({ name }) => name.startsWith('Arrow: ')); // biome-ignore format: one line
for (const { name, body } of ARROW) {
  const at = ARROW_IN_CHECK.findIndex((end) => name.endsWith(end));
  (at >= 0 ? checkTest : campaignTest)(`a file: ${name}`, async () => {
    const file = path.join(folder, `${name.replaceAll(/[^a-z0-9]+/gi, '-')}.arrows`);
    writeFileSync(file, body);
    // Two billion rows of nulls are two billion rows: such a file ends when its rows do.
    const cost = await costOf(commandFor(file, `${file}.out.ndjson`), MOST_CPU_SECONDS);
    expect([0, 1, 3], cost.stderr).toContain(cost.code);
    if (cost.code === 1) expect(cost.stderr).toMatch(/\[[a-z_]+\]/);
    expect(cost.memoryMb).toBeLessThan(MOST_MEMORY_MB);
  });
}

test('names of Arrow files that are tried in the check are those of attacks', () => {
  expect(ARROW.length).toBeGreaterThan(15);
  expect(ARROW_IN_CHECK.filter((end) => !ARROW.some(({ name }) => name.endsWith(end)))).toEqual([]);
});

test('names of files that are tried in the check are those of the table', () => {
  expect(IN_CHECK.filter((name) => !FILES.some(([of]) => of === name))).toEqual([]);
});

checkTest('of several inputs only the hostile one fails', async () => {
  const several = path.join(folder, 'several');
  mkdirSync(several);
  const good = readFileSync(path.join(ROOT, 'src/bundled/credit-default/1/selftest.csv'));
  for (const name of ['a.csv', 'c.csv']) writeFileSync(path.join(several, name), good);
  writeFileSync(path.join(several, 'b.csv'), Buffer.alloc(2_000_000, 'x'));
  const score = [process.execPath, MAIN, 'score', path.join(several, '*.csv')];
  const cost = await costOf([...score, '-m', 'credit-default', '-o', path.join(several, '{name}.ndjson')]);
  expect(cost.code, cost.stderr).toBe(1);
  expect(cost.stderr).toContain('1 of 3 inputs failed');
  expect(['a', 'b', 'c'].map((name) => existsSync(path.join(several, `${name}.ndjson`)))).toEqual([true, false, true]);
});

checkTest('many inputs that fail hold no more memory than one', async () => {
  const many = path.join(folder, 'many');
  mkdirSync(many);
  const bytes = columns(1, () => ({ pages: textPage(1, word(60 * MIB)) }));
  const inputs = TIER === 'campaigns' ? 12 : 6;
  for (let i = 0; i < inputs; i++) writeFileSync(path.join(many, `${i}.parquet`), bytes);
  const cost = await costOf(commandFor(path.join(many, '*.parquet'), path.join(many, '{name}.ndjson')));
  expect(cost.stderr).toContain(`${inputs} of ${inputs} inputs failed`);
  // Pages that are garbage are freed late.
  expect(cost.memoryMb).toBeLessThan(2 * MOST_MEMORY_MB);
});
