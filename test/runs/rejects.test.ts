// What a run leaves for people when rows were rejected: some, none, or all of them.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { asObjects } from '../support/service.ts';
import { checkTest } from '../support/tiers.ts';

const CLEAN = Buffer.concat([...generatePortfolio({ rows: 6, seed: 5, ids: true, oddness: 'none' })]).toString();
const [HEADER, ...ROWS] = CLEAN.trimEnd().split('\n') as [string, ...string[]];
const AMOUNT = HEADER.split(',').indexOf('amount');

/** The portfolio with other words where the amounts of these rows, from 0, should be. */
function broken(...rows: number[]): string {
  const lines = ROWS.map((line, i) => {
    const cells = line.split(',');
    if (rows.includes(i)) cells[AMOUNT] = 'much';
    return cells.join(',');
  });
  return `${[HEADER, ...lines].join('\n')}\n`;
}

const ALL = broken(0, 1, 2, 3, 4, 5);
const LIST_HEADER = 'input,row,line,byte_offset,application_id,error_code,error_column,error_message\n';
const score = (folder: string, ...args: string[]) =>
  sluiceHere(['score', ...args, '-m', 'credit-default', '--passthrough', 'application_id', '--workers', '1'], {
    cwd: folder,
  });
const idOf = (row: number): string => ROWS[row]!.split(',')[0]!;
const text = (folder: string, name: string): string => readFileSync(path.join(folder, name), 'utf8');

test('the list says in which input a rejected row stands and whose it is; JSON says the same', async () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'in.csv'), broken(1, 4));
  const objects = asObjects(broken(1, 4));
  writeFileSync(path.join(folder, 'in.json'), JSON.stringify(objects));
  expect((await score(folder, 'in.csv', '-o', 'o.csv', '--rejects', 'list.csv')).code).toBe(3);
  expect((await score(folder, 'in.json', '-o', 'o.json')).code).toBe(3);
  for (const [list, input] of [
    ['list.csv', 'in.csv'],
    ['o.json.rejects.csv', 'in.json'],
  ] as const) {
    const lines = text(folder, list).split(/(?<=\n)/);
    expect(lines[0]).toBe(LIST_HEADER);
    const fields = lines.slice(1).map((line) => line.split(','));
    expect(fields.map((f) => [f[0], f[1], f[4], f[5], f[6]])).toEqual(
      [1, 4].map((row) => [input, String(row + 1), idOf(row), 'bad_number', 'amount']),
    );
  }
});

checkTest(
  'a list that is asked for is there in any case; one that is not goes with the last rejected row',
  async () => {
    const folder = scratch();
    writeFileSync(path.join(folder, 'in.csv'), broken(2));
    writeFileSync(path.join(folder, 'clean.csv'), CLEAN);
    expect((await score(folder, 'in.csv', '-o', 'o.csv')).code).toBe(3);
    expect((await score(folder, 'in.csv', '-o', 'p.csv', '--rejects', 'list.csv')).code).toBe(3);
    expect(text(folder, 'o.csv.rejects.csv').split('\n')).toHaveLength(3);
    expect((await score(folder, 'clean.csv', '-o', 'o.csv')).code).toBe(0);
    expect((await score(folder, 'clean.csv', '-o', 'p.csv', '--rejects', 'list.csv')).code).toBe(0);
    expect(text(folder, 'list.csv')).toBe(LIST_HEADER);
    expect(readdirSync(folder).sort()).toEqual([
      'clean.csv',
      'in.csv',
      'list.csv',
      'o.csv',
      'o.csv.manifest.json',
      'p.csv',
      'p.csv.manifest.json',
    ]);
  },
);

describe('an input of which no row can be scored', () => {
  const pipeline = (more: string): string =>
    `model: credit-default\nsource: { type: file, path: in.csv }\nsink: { type: file, path: o.csv }\ndead_letter: { type: file, path: list.csv }\nscore: { workers: 1, passthrough: [application_id] }\n${more}`;

  test.each([
    [
      'score',
      [
        'score',
        'in.csv',
        '-m',
        'credit-default',
        '--passthrough',
        'application_id',
        '-o',
        'o.csv',
        '--rejects',
        'list.csv',
      ],
      ['--allow-empty'],
    ],
    ['run', ['run', 'p.yaml'], null],
  ])('%s: is exit 1 and replaces nothing, unless it is allowed', async (_, args, allow) => {
    const folder = scratch();
    writeFileSync(path.join(folder, 'in.csv'), ALL);
    writeFileSync(path.join(folder, 'p.yaml'), pipeline(''));
    for (const name of ['o.csv', 'list.csv']) writeFileSync(path.join(folder, name), 'of yesterday');
    const { code, stderr } = await sluiceHere(args, { cwd: folder });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/no application could be scored: bad_number 6 \[nothing_scored\]\n {2}row 1, amount: .*\[bad_number\]/)]); // biome-ignore format: one line
    expect(stderr).not.toContain('much');
    expect([text(folder, 'o.csv'), text(folder, 'list.csv')]).toEqual(['of yesterday', 'of yesterday']);
    expect(readdirSync(folder).sort()).toEqual(['in.csv', 'list.csv', 'o.csv', 'p.yaml']);
    writeFileSync(path.join(folder, 'p.yaml'), pipeline('allow_empty: true\n'));
    expect((await sluiceHere([...args, ...(allow ?? [])], { cwd: folder })).code).toBe(3);
    expect([text(folder, 'o.csv').split('\n'), text(folder, 'list.csv').split('\n')].map((l) => l.length)).toEqual([8, 8]); // biome-ignore format: one line
  });

  test('fails alone among several, and a file without rows is in order', async () => {
    const folder = scratch();
    mkdirSync(path.join(folder, 'in'));
    for (const [name, rows] of [
      ['a', broken(1)],
      ['b', ALL],
      ['c', `${HEADER}\n`],
    ] as const) {
      writeFileSync(path.join(folder, 'in', `${name}.csv`), rows);
    }
    const { code, stderr } = await score(folder, 'in/*.csv', '-o', '{name}.out.csv', '--rejects', 'list.csv');
    expect([code, stderr]).toEqual([1, expect.stringMatching(/1 of 3 inputs failed.*\n {2}in\/b\.csv: .*\[nothing_scored\]/)]); // biome-ignore format: one line
    expect(readdirSync(folder).sort()).toEqual([
      'a.out.csv',
      'a.out.csv.manifest.json',
      'c.out.csv',
      'c.out.csv.manifest.json',
      'in',
      'list.csv',
    ]);
    expect(text(folder, 'list.csv').split('\n')).toHaveLength(3);
  });
});

describe('an input that is not published leaves its earlier output valid, although others share its rejects file', () => {
  const verify = (folder: string, name: string) => sluiceHere(['verify', name], { cwd: folder });

  test.each([
    ['the gate stops it', broken(0, 1, 2), ['--max-rejects', '0.4'], 4],
    ['none of its rows can be scored', ALL, [], 1],
    ['it has another header', 'a,b\n1,2\n', [], 1],
  ] as const)('%s', async (_, second, flags, expected) => {
    const folder = scratch();
    mkdirSync(path.join(folder, 'in'));
    const write = (name: string, rows: string) => writeFileSync(path.join(folder, 'in', `${name}.csv`), rows);
    const run = () => score(folder, 'in/*.csv', '-o', '{name}.out.csv', '--rejects', 'list.csv', ...flags);
    write('a', broken(1));
    write('b', broken(2));
    expect((await run()).code).toBe(3);
    const files = readdirSync(folder).filter((name) => name !== 'in');
    const before = files.map((name) => text(folder, name));
    write('a', broken(3));
    write('b', second);
    write('c', broken(4));
    const { code, stderr } = await run();
    expect(code, stderr).toBe(expected);
    expect(stderr).toMatch(
      /nothing was published, because the earlier output b\.out\.csv needs the current rejects file/,
    );
    expect(readdirSync(folder).filter((name) => name !== 'in')).toEqual(files);
    expect(files.map((name) => text(folder, name))).toEqual(before);
    for (const name of ['a.out.csv', 'b.out.csv']) expect((await verify(folder, name)).code, name).toBe(0);
    // Without its earlier output, the others are published.
    for (const name of ['b.out.csv', 'b.out.csv.manifest.json']) rmSync(path.join(folder, name));
    const again = await run();
    expect([again.code, again.stderr]).toEqual([expected, expect.stringMatching(/the other outputs were published/)]);
    for (const name of ['a.out.csv', 'c.out.csv']) expect((await verify(folder, name)).code, name).toBe(0);
  });
});

test.each(['input', 'line', 'byte_offset', 'error_code', 'error_column', 'error_message'])(
  'a passthrough column %s is refused, because the list has a column with this name',
  async (name) => {
    const folder = scratch();
    writeFileSync(path.join(folder, 'in.csv'), broken(1).replace('application_id', name));
    const args = ['-m', 'credit-default', '--passthrough', name, '--workers', '1', '-o', 'o.json'];
    const refused = await sluiceHere(['score', 'in.csv', ...args], { cwd: folder });
    const found = `passthrough: ${name} is also a column of the rejects file`;
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(found)]);
    expect(readdirSync(folder)).toEqual(['in.csv']);
    const pipeline = `model: credit-default\nsource: { type: file, path: in.csv }\nsink: { type: file, path: o.json }\ndead_letter: { type: file, path: list.csv }\nscore: { passthrough: [${name}] }\n`; // biome-ignore format: one line
    writeFileSync(path.join(folder, 'p.yaml'), pipeline);
    const linted = await sluiceHere(['run', 'p.yaml'], { cwd: folder });
    expect([linted.code, linted.stderr]).toEqual([2, expect.stringContaining(found)]);
    // A declaration gives the column another name; the rejects file does not list the columns of `*`.
    const renamed = [...args.slice(0, 3), 'whose', ...args.slice(4), '--rename', `whose=${name}`];
    expect((await sluiceHere(['score', 'in.csv', ...renamed], { cwd: folder })).code).toBe(3);
    const all = [...args.slice(0, 3), '*', ...args.slice(4)];
    expect((await sluiceHere(['score', 'in.csv', ...all], { cwd: folder })).code).toBe(3);
    expect(text(folder, 'o.json.rejects.csv').split('\n')[0]).toBe(
      LIST_HEADER.replace('application_id,', '').trimEnd(),
    );
  },
);
