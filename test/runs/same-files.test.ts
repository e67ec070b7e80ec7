// No run writes over what it reads, nor two things to one file, by whatever names the files go: it is refused before the first byte.
import { createHash } from 'node:crypto';
import { linkSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { refuseSameFiles } from '../../src/runs/same-files.ts';
import { scratch, sluiceHere } from '../support/cli.ts';

const ROWS = Buffer.concat([...generatePortfolio({ rows: 4, seed: 5 })]);

/** A folder with an input under several names, and a pipeline. */
function setUp(): string {
  const folder = path.join(scratch(), 'work');
  const at = (name: string) => path.join(folder, name);
  mkdirSync(folder);
  for (const name of ['far', 'in', 'in/a', 'in/b']) mkdirSync(at(name));
  for (const name of ['in.csv', 'in/a/x.csv', 'in/b/x.csv', 'in/b/x.csv.gz', 'in/b/y.csv'])
    writeFileSync(at(name), ROWS);
  symlinkSync('in.csv', at('soft.csv'));
  symlinkSync('soft.csv', at('soft-soft.csv'));
  symlinkSync('work', path.join(folder, '..', 'here'));
  linkSync(at('in.csv'), at('hard.csv'));
  symlinkSync(path.join('far', 'new.csv'), at('dangling.csv'));
  symlinkSync('far', at('near'));
  const pipeline =
    'model: credit-default\nsource: { type: file, path: in.csv }\nsink: { type: file, path: p.yaml, format: csv }\n';
  writeFileSync(at('p.yaml'), pipeline);
  return folder;
}

const everything = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => {
      const file = path.join(folder, name);
      return `${name} ${statSync(file, { throwIfNoEntry: false })?.isFile() ? createHash('md5').update(readFileSync(file)).digest('hex') : ''}`;
    });

const score = (...args: string[]) => ['score', ...args, '-m', 'credit-default'];
const generate = (...args: string[]) => ['generate', '--rows', '3', ...args];
const explain = (...args: string[]) => ['explain', '--row', '1', '-m', 'credit-default', ...args];

test.each<[string, string[], RegExp]>([
  ['its own name', score('in.csv', '-o', 'in.csv'), /the output is the input: in\.csv/],
  ['another spelling', score('in.csv', '-o', './in/../in.csv'), /the same file as in\.csv/],
  ['a link', score('in.csv', '-o', 'soft.csv'), /the output is the input: soft\.csv, the same file as in\.csv/],
  ['a link to a link', score('in.csv', '-o', 'soft-soft.csv'), /the output is the input/],
  ['the input by a link', score('soft-soft.csv', '-o', 'in.csv'), /the output is the input/],
  ['a hard link', score('in.csv', '-o', 'hard.csv'), /the output is the input: hard\.csv, the same file as in\.csv/],
  ['a folder by a link', score('in.csv', '-o', '../here/in.csv'), /the output is the input/],
  ['a list over the input', score('in.csv', '-o', 'o.csv', '--rejects', 'hard.csv'), /the rejects file is the input/],
  ['a list over the output', score('in.csv', '-o', 'o.csv', '--rejects', '../here/o.csv'), /written twice: the output and the rejects file/],
  ['a list over the output behind a link to nothing', score('in.csv', '-o', 'dangling.csv', '--rejects', 'near/new.csv'), /written twice/],
  ['metrics over the input', score('in.csv', '-o', 'o.csv', '--metrics-file', 'soft.csv'), /the metrics file is the input/],
  ['metrics over the list', score('in.csv', '-o', 'o.csv', '--metrics-file', 'o.csv.rejects.csv'), /written twice: the rejects file and the metrics file/],
  ['an output over the pipeline', ['run', 'p.yaml'], /the output is the pipeline: p\.yaml/],
  ['inputs of one name in several folders', score('in/*/x.csv', '-o', '{name}.csv'), /x\.csv is written twice: the output of in\/a\/x\.csv and the output of in\/b\/x\.csv/],
  ['inputs of one name, packed and not', score('in/b/*', '--input-format', 'csv', '-o', '{name}.ndjson'), /x\.ndjson is written twice: the output of in\/b\/x\.csv and the output of in\/b\/x\.csv\.gz/],
  ['lists of inputs of one name', score('in/b/x*', '--input-format', 'csv', '-o', '{name}.csv', '--rejects', 'far/{name}.csv'), /far\/x\.csv is written twice: the rejects file of in\/b\/x\.csv and /],
  ['a page over the input', explain('in.csv', '--html', 'soft.csv'), /the page is the input/],
  ['a list of faults over the portfolio', generate('-o', 'in.csv', '--faults-json', 'hard.csv'), /written twice/],
])('%s is refused', async (_, args, words) => {
  const folder = setUp();
  const before = everything(folder);
  const { code, stdout, stderr } = await sluiceHere(args, { cwd: folder });
  expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(words)]);
  expect(everything(folder)).toEqual(before);
}); // biome-ignore format: a table

test('pipes and devices are nobody else, and what is apart goes through', async () => {
  const folder = setUp();
  const at = (name: string) => ({ name: path.join(folder, name), role: name });
  const device = { name: '/dev/null', role: 'a device' };
  await refuseSameFiles([at('in.csv'), at('soft.csv')], [at('o.csv'), at('O.csv'), at('far/o.csv'), device, device]);
  const many = Array.from({ length: 30 }, () => at('o.csv'));
  await expect(refuseSameFiles([], many)).rejects.toThrow(/^(.*o\.csv is written twice.*\n){20}and 9 more$/);
});
