// A file whose names do not resemble those of the model: what `sluice inspect` finds out, and what can be declared.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { inspectFile } from '../../src/inspect/inspect-file.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { scratch } from '../support/cli.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { type Applications, applicationsFor } from './applications.ts';
import { germanFile } from './german-file.ts';

let applications: Applications;
let model: Awaited<ReturnType<typeof loadPackage>>;
beforeAll(async () => {
  applications = await applicationsFor(CREDIT_DEFAULT, 200);
  model = await loadPackage(CREDIT_DEFAULT);
});

async function inspected(content: string | Buffer) {
  const file = path.join(scratch(), 'bank.csv');
  writeFileSync(file, content);
  return inspectFile({ file, model, modelName: 'credit', output: 'out.csv' });
}

test('the notation of numbers is judged from columns that look like numbers, and is not certain', async () => {
  const found = await inspected(germanFile(applications));
  expect(found.numbers).toEqual({
    value: 'decimal comma, thousands point',
    confidence: 'medium',
    reason:
      'no number column of the model is known yet; columns such as KREDITBETRAG, EINKOMMEN, RATE look like decimal comma, thousands point',
  });
});

test('known whole numbers do not decide about the other columns', async () => {
  const found = await inspected(germanFile(applications).toString('latin1').replace(';LAUFZEIT;', ';term;'));
  expect(found.numbers).toMatchObject({ value: 'decimal comma, thousands point', confidence: 'medium' });
  expect(found.numbers!.reason).toMatch(/^the known number columns have whole numbers without separators; columns/);
});

test('a notation that no value confirms is not certain', async () => {
  const found = await inspected('a;b\nx;y\nz;w\n');
  expect(found.numbers).toMatchObject({ confidence: 'low', reason: expect.stringMatching(/: not checked$/) });
});
