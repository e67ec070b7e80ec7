// The log of a run describes the error of each rejected input, and contains no value of the input.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scratch, sluiceHere } from '../support/cli.ts';

const PORTFOLIO = Buffer.concat([...generatePortfolio({ rows: 20, seed: 3 })]).toString();
const [HEADER, ...ROWS] = PORTFOLIO.trimEnd().split('\n');
const renamed = (change: (names: string[]) => string[]) => [change(HEADER!.split(',')).join(','), ...ROWS].join('\n');
const AT = HEADER!.split(',').indexOf('income');
const withoutNumbers = ROWS.map((row) =>
  row
    .split(',')
    .map((cell, i) => (i === AT ? 'secret' : cell))
    .join(','),
);

interface Rejected {
  what: string;
  input: string | Buffer;
  message: string;
  file?: string;
  options?: string;
  /** A value of the input. */
  own?: string;
}

const REJECTED: Rejected[] = [
  {
    what: 'other names',
    input: renamed((names) => names.map((name) => ({ income: 'Gehalt', banned: 'zzz' })[name] ?? name)),
    message:
      'The header row does not match the columns of the model: 2 columns missing (income, banned), 2 other differences.',
    own: 'Gehalt',
  },
  {
    what: 'a column of its own',
    input: renamed((names) => [...names, 'colour']),
    message: 'The header row does not match the columns of the model: 1 other difference.',
    own: 'colour',
  },
  {
    what: 'rows without a header',
    input: `surname,${ROWS.join('\n')}`,
    message: 'row 1 is not a header: 0 of 23 columns found; the file looks like data without a header row',
    own: 'surname',
  },
  {
    what: 'another delimiter',
    input: PORTFOLIO.replaceAll(',', ';'),
    message: 'the header row is delimited by semicolon, not by comma',
  },
  {
    what: 'another encoding',
    input: Buffer.from(`\ufeff${PORTFOLIO}`, 'utf16le'),
    message: 'the input is UTF-16 text: declare encoding: utf-16, or save it as CSV in UTF-8',
  },
  {
    what: 'another kind of file',
    input: '<html><b>surname</b>',
    message: 'the input is',
    own: 'surname',
  },
  { what: 'nothing', input: '', message: 'the input has no header row' },
  {
    what: 'a cut stream',
    input: gzipSync(PORTFOLIO).subarray(0, 400),
    file: 'b.csv.gz',
    message: 'the gzip stream is cut off or damaged',
  },
  {
    what: 'no valid row',
    input: [HEADER, ...withoutNumbers].join('\n'),
    message: 'no application could be scored: bad_number 20',
    own: 'secret',
  },
  {
    what: 'an invalid row',
    input: [HEADER, ROWS[0], withoutNumbers[1]].join('\n'),
    options: 'on_invalid: fail',
    message: 'row 2 is invalid: bad_number',
    own: 'secret',
  },
];

test.each(REJECTED)('$what', async ({ input, message, own, file = 'b.csv', options = '' }) => {
  const folder = scratch();
  writeFileSync(path.join(folder, file), input);
  const pipeline = path.join(folder, 'run.yaml');
  const source = `source: { type: file, path: '${folder}/*.csv*' }`;
  writeFileSync(
    pipeline,
    `model: credit-default\n${source}\nsink: { type: file, path: '${folder}/{name}.ndjson' }\n${options}`,
  );
  const run = () => sluiceHere(['run', pipeline], { env: { SLUICE_LOG_FORMAT: 'json' } });
  const { code, stderr } = await run();
  expect(code).toBe(1);
  const { level, msg } = JSON.parse(stderr.trim().split('\n').at(-1)!);
  expect([level, msg]).toEqual(['fatal', expect.stringContaining(message)]);
  if (own !== undefined) expect(stderr).not.toContain(own);
  // The same in a list of inputs that failed.
  writeFileSync(path.join(folder, 'a.csv'), PORTFOLIO);
  const several = await run();
  expect(several.code).toBe(1);
  expect(several.stderr).toContain(message);
  if (own !== undefined) expect(several.stderr).not.toContain(own);
});
