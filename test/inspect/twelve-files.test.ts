// The command that `sluice inspect` prints scores files of other systems exactly like the clean file, at the first try.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { scratch, sluiceHere } from '../support/cli.ts';
import { pythonWith } from '../support/python-environment.ts';
import { CREDIT_COLUMNS, CREDIT_DEFAULT } from '../support/score.ts';
import { campaignTest, testOfMany } from '../support/tiers.ts';
import { type Applications, applicationsFor } from './applications.ts';
import { cleanText, outputOf, predictionsIn, runPrinted } from './printed-command.ts';
import { THIRD_PARTY_FILES, UNFIT_HEADERS } from './third-party-files.ts';

const ROWS = 400;

interface TestedModel {
  name: string;
  folder: string;
  flags: string[];
}
/** Category codes, booleans and categories with leading zeros; and categories without a list, and no baseline. */
const MODELS: readonly TestedModel[] = [
  { name: 'credit-default', folder: CREDIT_DEFAULT, flags: ['--model', 'credit-default'] },
  {
    name: 'credit-columns',
    folder: CREDIT_COLUMNS,
    flags: ['--model', 'credit-columns', '--registry', path.dirname(path.dirname(CREDIT_COLUMNS))],
  },
];

describe.each(MODELS)('$name', ({ folder, flags, name }) => {
  let applications: Applications;
  let clean: string[][];
  beforeAll(async () => {
    applications = await applicationsFor(folder, ROWS);
    const cwd = mkdtempSync(path.join(tmpdir(), 'sluice-test-'));
    try {
      writeFileSync(path.join(cwd, 'clean.csv'), cleanText(applications));
      const run = await sluiceHere(['score', 'clean.csv', ...flags, '-o', 'clean.scored.csv', '--quiet'], { cwd });
      expect(run.stderr).toBe('');
      clean = predictionsIn(path.join(cwd, 'clean.scored.csv'));
      expect(clean).toHaveLength(ROWS + 1);
    } finally {
      rmSync(cwd, { recursive: true });
    }
  });

  for (const [i, { what, name: file, bytes }] of [...THIRD_PARTY_FILES, ...UNFIT_HEADERS].entries()) {
    // The second model differs only in what confirms values, so a fast run has some of its files.
    const run = folder === CREDIT_DEFAULT ? test : testOfMany(i, 4);
    run(what, async () => {
      const cwd = scratch();
      writeFileSync(path.join(cwd, file), bytes(applications));
      const report = await sluiceHere(['inspect', file, ...flags], { cwd });
      expect(report.stderr).toBe('');
      // Without training data, nothing confirms the order of fields without names: the reader must.
      const isUnconfirmed = file === 'headless.dat' && name === 'credit-columns';
      expect(report.code, report.stdout).toBe(isUnconfirmed ? 3 : 0);
      const command = report.stdout.trimEnd().split('\n').at(-1)!;
      runPrinted(command, cwd);
      expect(predictionsIn(path.join(cwd, outputOf(file))), command).toEqual(clean);
    });
  }

  campaignTest('files that pandas writes', async () => {
    const found = await pythonWith('test/formats/columns/fixtures/requirements.txt');
    if ('missing' in found) throw new Error(`this needs ${found.missing}`);
    const cwd = scratch();
    const files = path.join(cwd, 'frames');
    mkdirSync(files);
    writeFileSync(path.join(cwd, 'clean.csv'), cleanText(applications));
    execFileSync(found.python, [path.resolve('test/inspect/export_frames.py'), path.join(cwd, 'clean.csv'), files]);
    const names = readdirSync(files);
    expect(names.length).toBeGreaterThan(8);
    for (const file of names) {
      const run = await sluiceHere(['inspect', path.join('frames', file), ...flags], { cwd });
      expect([file, run.code]).toEqual([file, 0]);
      runPrinted(run.stdout.trimEnd().split('\n').at(-1)!, cwd);
      expect(predictionsIn(path.join(cwd, outputOf(file))), file).toEqual(clean);
    }
  });
});
