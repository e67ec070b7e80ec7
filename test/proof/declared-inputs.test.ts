// An input that was declared is checked and replayed as it was read: the manifest has the declaration, and its blocks are found.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync as gunzip, gzipSync } from 'node:zlib';
import { expect } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { type ScoreOptions, score } from '../../src/doors/commands/score.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { replayRow } from '../../src/runs/checks/replay-row.ts';
import { readManifest, verifyOutput } from '../../src/runs/checks/verify-output.ts';
import { scratch } from '../support/cli.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { checkTest } from '../support/tiers.ts';

const ROWS = 40;
const ROW = 23;
const TEXT = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 9, faults: 0, ids: true })]).toString();
const [HEADER, ...LINES] = TEXT.trimEnd().split('\n') as [string, ...string[]];
/** Ids with letters that are other bytes in other encodings. */
const ACCENTED = [HEADER, ...LINES.map((line) => `é${line}`)].join('\n');
const semicolons = TEXT.replaceAll(',', ';').replaceAll('.', ',');

interface Declared {
  file: string;
  bytes: Buffer;
  flags: Partial<ScoreOptions>;
  /** Another digit in a row, as the file is stored. Default: in place. */
  change?: (bytes: Buffer) => Buffer;
  /** What is not in a row and was changed is told as what? */
  beside?: { change: (bytes: Buffer) => Buffer; kind: string };
}

/** The last digit of the line of a row is another one. */
const changed = (bytes: Buffer, encoding: 'latin1' | 'utf16le' = 'latin1', header = 1): Buffer => {
  const lines = bytes.toString(encoding).split('\n');
  lines[ROW - 1 + header] = lines[ROW - 1 + header]!.replace(/\d(?=\D*$)/, (digit) => String((Number(digit) + 1) % 10));
  return Buffer.from(lines.join('\n'), encoding);
};

const CASES: Record<string, Declared> = {
  'other names': {
    file: 'in.csv',
    bytes: Buffer.from(TEXT.replace(/^application_id/, 'ID').replace('amount', 'SUM')),
    flags: { rename: 'amount=SUM,application_id=ID' },
  },
  latin1: {
    file: 'in.csv',
    bytes: Buffer.from(ACCENTED, 'latin1'),
    flags: { encoding: 'latin1' },
  },
  'utf-16': {
    file: 'in.csv',
    bytes: Buffer.from(`\uFEFF${ACCENTED}`, 'utf16le'),
    flags: { encoding: 'utf-16' },
    change: (bytes) => changed(bytes, 'utf16le'),
    beside: { change: (bytes) => bytes.subarray(2), kind: 'changed' },
  },
  'latin1 in gzip': {
    file: 'in.csv.gz',
    bytes: gzipSync(Buffer.from(ACCENTED, 'latin1')),
    flags: { encoding: 'latin1' },
    change: (bytes) => gzipSync(changed(gunzip(bytes))),
    beside: { change: (bytes) => gzipSync(gunzip(bytes), { level: 1 }), kind: 'stored' },
  },
  'a decimal comma between semicolons': {
    file: 'in.csv',
    bytes: Buffer.from(semicolons),
    flags: { delimiter: 'semicolon', decimal: 'comma' },
  },
  'no header row': {
    file: 'in.csv',
    bytes: Buffer.from(`${LINES.join('\n')}\n`),
    flags: { columns: HEADER },
    change: (bytes) => changed(bytes, 'latin1', 0),
  },
  'totals that are expected': {
    file: 'in.csv',
    bytes: Buffer.from(TEXT),
    flags: { expectRows: ROWS },
  },
};

for (const [name, { file, bytes, flags, change = changed, beside }] of Object.entries(CASES)) {
  checkTest(`${name}: it is whole, a row is replayed, and named where it is changed`, async () => {
    const at = (n: string) => path.join(scratchFolder, n);
    const scratchFolder = scratch();
    writeFileSync(at(file), bytes);
    const options = {
      model: 'credit-default',
      onInvalid: 'report',
      passthrough: 'application_id',
      quiet: true,
    } as const;
    const output = at('out.csv');
    expect(await score(at(file), { ...options, ...flags, output, blockBytes: 1024, workers: 1 })).toBe(0);
    const verified = (input: Buffer) => {
      writeFileSync(at(file), input);
      return verifyOutput({ output, input: at(file), list: null, package: null, key: null });
    };
    expect(await verified(bytes)).toMatchObject({ whole: true, findings: [] });
    const { predicate } = await readManifest(output, null);
    expect(predicate.blocks!.input.length).toBeGreaterThan(3);
    const model = await loadPackage(CREDIT_DEFAULT);
    expect(await replayRow({ output, predicate, model, row: ROW, input: at(file) })).toMatchObject({ same: true });
    const { findings } = await verified(change(bytes));
    expect(findings).toMatchObject([
      { file: 'input', kind: 'changed', range: [expect.any(Number), expect.any(Number)] },
    ]);
    const [first, last] = findings[0]!.range!;
    expect([first <= ROW, last >= ROW, last - first < ROWS / 2]).toEqual([true, true, true]);
    if (beside)
      expect((await verified(beside.change(bytes))).findings).toMatchObject([{ kind: beside.kind, rows: [] }]);
    expect(readFileSync(output, 'utf8').split('\n')).toHaveLength(ROWS + 2);
  });
}
