// A file that was cut at a line end looks whole: what its sender says of it tells, before anything is published.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { WithoutLastLine } from '../../src/io/source/byte-taps.ts';
import type { TotalsSpec } from '../../src/runs/control-totals.ts';
import { endpoint } from '../../src/runs/endpoint-specs.ts';
import { openSource } from '../../src/runs/endpoints.ts';
import { inChunks } from '../support/blocks.ts';
import { scratch, sluice, sluiceHere } from '../support/cli.ts';
import fc from '../support/seeded-fast-check.ts';
import { checkTest } from '../support/tiers.ts';

const ROWS = 60;
const TEXT = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 4, oddness: 'none' })]).toString();
const sha256 = (bytes: string | Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** Reads an input whole, as a run does; gives what was left of its text, or the code and message it ends with. */
async function read(name: string, said: Parameters<typeof endpoint>[1], rows: number): Promise<string> {
  try {
    const source = await openSource(endpoint(name, said, 'csv'));
    const parts: Buffer[] = [];
    for await (const chunk of source.chunks) parts.push(Buffer.from(chunk));
    source.checkTotals?.(rows);
    return Buffer.concat(parts).toString();
  } catch (error) {
    if (error instanceof SluiceError) return `${error.code}: ${error.message}`;
    throw error;
  }
}

const NOT = 'control_total_mismatch: the input does not match the control totals of its sender: ';

/** Lines of checksum tools; the names of files contain the characters that separate pairs. */
const checksumLines = (hex: string): string[] => [
  `${hex}  a=b.csv`,
  `${hex} *C:\\in\\a.csv`,
  `\\${hex}  a\\\\b.csv`,
  `${hex}  a;b.csv`,
  `SHA256 (a.csv) = ${hex}`,
  `SHA256 (a;b=c (1).csv) = ${hex}`,
  `SHA256(a.csv)= ${hex}`,
  `SHA2-256(a.csv)= ${hex}`,
  `SHA256          ${hex.toUpperCase()}       C:\\in\\a.csv`,
  `SHA256 hash of a.csv:\r\n${hex}\r\nCertUtil: -hashfile command completed successfully.`,
];

test('rows and digest, said by whoever starts the run or by a file beside the input', async () => {
  const file = path.join(scratch(), 'in.csv');
  writeFileSync(file, 'a,b\n1,2\n3,4\n');
  const hex = sha256('a,b\n1,2\n3,4\n');
  const control = (text: string) => writeFileSync(`${file}.ctl`, text);
  const beside: TotalsSpec = { control: { file: '{path}.ctl' } };
  const whole = readFileSync(file, 'utf8');
  expect(await read(file, { expect: { rows: 2, sha256: hex.toUpperCase() } }, 2)).toBe(whole);
  expect(await read(file, { expect: { rows: 3 } }, 2)).toBe(`${NOT}3 rows expected, 2 found`);
  const other = sha256('');
  expect(await read(file, { expect: { sha256: other } }, 2)).toBe(`${NOT}SHA-256 ${other} expected, ${hex} found`);
  expect(await read(file, beside, 2)).toContain('in.csv.ctl cannot be read: the input is incomplete');
  for (const text of [
    'rows=2',
    `ROWS = 2;sha256=${hex}`,
    `rows: 2\r\nsha256: ${hex.toUpperCase()}\r\n`,
    `\ufeffrows=0002\nfile=in.csv\n`,
    `${hex}  in.csv\n`,
    `${hex} *in.csv`,
    ...checksumLines(hex).flatMap((line) => [line, `rows=2\n${line}`, `${line}\nrows=2`]),
    `rows=2;${hex}  in.csv`,
    `rows=2\nrows=02\n${hex}  in.csv\nsha256=${hex}`,
  ]) {
    // biome-ignore format: one line
    control(text);
    expect(await read(file, beside, 2), text).toBe(whole);
  }
  control('rows=3');
  expect(await read(file, beside, 2)).toBe(`${NOT}3 rows by ${file}.ctl, 2 found`);
  control(`${other}  in.csv`);
  expect(await read(file, beside, 2)).toBe(`${NOT}SHA-256 ${other} by ${file}.ctl, ${hex} found`);
  for (const text of ['', 'rows', 'count=2', 'rows=two', 'rows=-2', 'sha256=12', 'rows=2.0']) {
    control(text);
    expect(await read(file, beside, 2), text).toMatch(/^control_total_mismatch: /);
  }
  // A checksum counts in the format of any tool, and a file that contradicts itself fits no input.
  for (const text of [
    ...checksumLines(other).flatMap((line) => [line, `rows=2\n${line}`, `${line}\nrows=2`]),
    `${hex}  in.csv;rows=3`,
    'rows=3\nrows=2',
    'rows=2\nrows=3',
    `sha256=${other}\nsha256=${hex}`,
    `sha256=${hex}\n${other}  in.csv`,
  ]) {
    control(text);
    expect(await read(file, beside, 2), text).toContain(NOT);
  }
  control(`rows=2\n${other}  in.csv`);
  const named = { control: { file: '{path}.ctl', sha256_key: 'digest' } };
  expect(await read(file, named, 2)).toContain(NOT);
  // 64 KiB are read, and not a byte more.
  control(`rows=2\n`.padEnd(65_536));
  expect(await read(file, beside, 2)).toBe(whole);
  control(`rows=2\n`.padEnd(65_537));
  expect(await read(file, beside, 2)).toContain('is not a control file: it is longer than 65536 bytes');
  control('anzahl=2');
  expect(await read(file, { control: { file: '{path}.ctl', rows_key: 'ANZAHL' } }, 2)).toBe(whole);
  expect(await read(file, { done_file: '{path}.done' }, 2)).toContain('in.csv.done does not exist');
  writeFileSync(`${file}.done`, '');
  expect(await read(file, { done_file: '{path}.done' }, 2)).toBe(whole);
});

test('the log has the expected and the actual number', async () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'p.yaml'), `model: credit-default
source: { type: file, path: ${folder}/in.csv, expect: { rows: 3 } }
sink: { type: file, path: ${folder}/out.csv }
`); // biome-ignore format: one file
  writeFileSync(path.join(folder, 'in.csv'), Buffer.concat([...generatePortfolio({ rows: 2, seed: 3 })]));
  const { code, stderr } = await sluiceHere(['run', path.join(folder, 'p.yaml'), '--log-format', 'json']);
  expect([code, JSON.parse(stderr.trimEnd().split('\n').at(-1)!)]).toEqual([
    1,
    expect.objectContaining({ event: 'command_failed', msg: `${NOT.replace(/^\w+: /, '')}3 rows expected, 2 found` }),
  ]);
});

test('the digest is that of the file as it is stored', async () => {
  const file = path.join(scratch(), 'in.csv.gz');
  const bytes = gzipSync('a,b\n1,2\n');
  writeFileSync(file, bytes);
  expect(await read(file, { expect: { sha256: sha256(bytes) } }, 1)).toBe('a,b\n1,2\n');
  expect(await read(file, { expect: { sha256: sha256(gunzipSync(bytes)) } }, 1)).toMatch(/^control_total_mismatch/);
});

test.each<[what: string, text: string, rows: number, want: string]>([
  ['a trailer', 'a;b\n1;2\nTRL;1\n', 1, 'a;b\n1;2\n'],
  ['one without a line end, in quotes, with zeros', 'a;b\r\n1;2\r\n"TRL";0001', 1, 'a;b\r\n1;2\r\n'],
  ['one before blank lines', 'a;b\n1;2\n TRL ; 1 ;x\n\n\r\n', 1, 'a;b\n1;2\n'],
  [
    'none: cut at a line end',
    'a;b\n1;2\n3;4\n',
    1,
    'control_total_mismatch: the last record is not a trailer TRL: the input was truncated',
  ],
  [
    'none: cut in it',
    'a;b\n1;2\nTR',
    1,
    'control_total_mismatch: the last record is not a trailer TRL: the input was truncated',
  ],
  ['a cut number', 'a;b\n1;2\n3;4\nTRL;', 2, 'control_total_mismatch: field 2 of the trailer is not a whole number'],
  ['another number', 'a;b\n1;2\nTRL;12\n', 1, `${NOT}12 rows by the trailer, 1 found`],
  ['nothing', '', 0, 'control_total_mismatch: the last record is not a trailer TRL: the input was truncated'],
  ['a line too long to be one', `a;b\nTRL;${' '.repeat(70_000)}1`, 0, 'control_total_mismatch: the last record is not a trailer TRL: the input was truncated'], // biome-ignore format: one line
])('%s', async (_, text, rows, want) => {
  const file = path.join(scratch(), 'in.csv');
  writeFileSync(file, text);
  const said = { delimiter: 'semicolon' as const, trailer: { marker: 'TRL', rows_field: 2 } };
  expect(await read(file, said, rows)).toBe(want);
});

test('a trailer without a number of rows is only recognised', async () => {
  const file = path.join(scratch(), 'in.csv');
  const said = { delimiter: 'semicolon' as const, trailer: { marker: 'SUMME' } };
  writeFileSync(file, 'a;b\n1;2\nSUMME;7,00\n');
  expect(await read(file, said, 1)).toBe('a;b\n1;2\n');
  expect(await read(file, said, 5)).toBe('a;b\n1;2\n');
  writeFileSync(file, 'a;b\n1;2\n');
  expect(await read(file, said, 1)).toContain('the last record is not a trailer SUMME');
});

test('the last line is the same wherever the text is cut, and all before it goes through', async () => {
  const text = fc.string({ unit: fc.constantFrom('a', ';', 'é', '\n', '\r', '\r\n', '\n\n', 'T'), maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(text, fc.integer({ min: 1, max: 9 }), async (whole, chunk) => {
      const taker = new WithoutLastLine();
      const parts: Buffer[] = [];
      for await (const part of taker.rest(inChunks(Buffer.from(whole), chunk))) parts.push(Buffer.from(part));
      const lines = whole.replace(/[\r\n]+$/, '').split(/(?<=[\r\n])/);
      const last = lines.at(-1)!;
      expect([taker.last ?? '', Buffer.concat(parts).toString()]).toEqual([last, lines.slice(0, -1).join('')]);
    }),
    { numRuns: 500 },
  );
});

checkTest('nothing is published of a file that was cut, at any line end, by flags and by a pipeline', async () => {
  const folder = scratch();
  const put = (name: string, text: string) => writeFileSync(path.join(folder, name), text);
  const lines = TEXT.trimEnd().split('\n');
  const cut = `${lines.slice(0, 31).join('\n')}\n`;
  put('whole.csv', TEXT);
  put('cut.csv', cut);
  put('whole.csv.ctl', `rows=${ROWS};sha256=${sha256(TEXT)}`);
  put('cut.csv.ctl', `rows=${ROWS};sha256=${sha256(TEXT)}`);
  const run = (...args: string[]) => sluice([...args, '--quiet'], { cwd: folder });
  const score = (name: string, out: string, ...flags: string[]) =>
    run('score', name, '-m', 'credit-default', '-o', out, '--workers', '1', ...flags);
  expect(await score('whole.csv', 'a.csv', '--expect-rows', '60', '--control-file', '{path}.ctl')).toMatchObject({
    code: 0,
  });
  const failed = await score('cut.csv', 'b.csv', '--expect-rows', '60', '--control-file', '{path}.ctl');
  expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining('60 rows expected, 30 found')]);
  expect(failed.stderr).toContain('[control_total_mismatch]');
  put('p.yaml', `model: credit-default\nsource: { type: file, path: t.csv, trailer: { marker: "99", rows_field: 2, extra_rows: 2 } }\nscore: { workers: 1 }\nsink: { type: file, path: c.csv }\n`); // biome-ignore format: one line
  const pipeline = () => sluice(['run', 'p.yaml'], { cwd: folder });
  put('t.csv', cut);
  expect(await pipeline()).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('the last record is not a trailer 99'),
  });
  expect(readdirSync(folder).sort()).toEqual(['a.csv', 'a.csv.manifest.json', 'cut.csv', 'cut.csv.ctl', 'p.yaml', 't.csv', 'whole.csv', 'whole.csv.ctl']); // biome-ignore format: one line
  put('t.csv', `${TEXT}99,${ROWS + 2}\n`);
  expect(await pipeline()).toMatchObject({ code: 0 });
  expect(readFileSync(path.join(folder, 'c.csv'), 'utf8')).toBe(readFileSync(path.join(folder, 'a.csv'), 'utf8'));
  expect(existsSync(path.join(folder, 'b.csv'))).toBe(false);
});
