// Two packages held against each other: every place where they say something else, and what it does to the same applications.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { Manifest } from '../../src/model/package/manifest.ts';
import { comparePackages, comparisonText, manifestDifferences } from '../../src/onboarding/compare-packages.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { copyUnlocked } from '../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { checkTest } from '../support/tiers.ts';

const { manifest } = await loadPackage(CREDIT_DEFAULT);
const column = (m: Manifest, name: string) => m.columns.find((c) => c.name === name)!;

test.each<[what: string, change: (m: Manifest) => unknown, expected: string[]]>([
  ['nothing', () => {}, []],
  ['the version', (m) => Object.assign(m, { version: 7 }), []],
  [
    'two codes swapped',
    (m) => Object.assign(column(m, 'source_type').codes!, { AGENT: 1, BRANCH: 0 }),
    ['columns.source_type.codes.AGENT: 0 → 1', 'columns.source_type.codes.BRANCH: 1 → 0'],
  ],
  [
    'a missing rule',
    (m) => Object.assign(column(m, 'income').missing!, { as: 'value', value: -1 }),
    ['columns.income.missing.as: "nan" → "value"', 'columns.income.missing.value: null → -1'],
  ],
  [
    'a decision',
    (m) => Object.assign(m.decisions![0]!, { min_probability: 0.9 }),
    ['decisions.approve.min_probability: 0.85 → 0.9'],
  ],
  [
    'the order of columns',
    (m) => m.columns.reverse(),
    [expect.stringMatching(/^columns \(order\): amount, .* → banned, /) as unknown as string],
  ],
  [
    'a column gone and one more',
    (m) => Object.assign(column(m, 'income'), { name: 'wage' }),
    [
      expect.stringMatching(/^columns\.wage: null → \{"name":"wage"/) as unknown as string,
      expect.stringMatching(/^columns\.income: \{"name":"income".* → null$/) as unknown as string,
    ],
  ],
  ['no baseline', (m) => Object.assign(m, { baseline: undefined }), ['baseline: of 50000 rows → null']],
  [
    'a description',
    (m) => Object.assign(m, { description: 'x' }),
    [expect.stringContaining('description: ') as unknown as string],
  ],
])('%s', (_, change, expected) => {
  const other = structuredClone(manifest);
  change(other);
  expect(manifestDifferences(manifest, other).map((d) => `${d.at}: ${d.from} → ${d.to}`)).toEqual(expected);
});

/** The bundled package with its model.yaml changed. */
function changedPackage(change: (yaml: string) => string): string {
  const folder = path.join(scratch(), 'changed');
  copyUnlocked(CREDIT_DEFAULT, folder);
  const file = path.join(folder, 'model.yaml');
  const before = readFileSync(file, 'utf8');
  const after = change(before);
  expect(after).not.toBe(before);
  writeFileSync(file, after);
  return folder;
}

test('the same applications: predictions, decisions and effects move where a code did', async () => {
  const from = await loadPackage(CREDIT_DEFAULT);
  const same = await comparePackages(from, from);
  expect(same).toMatchObject({ differences: [], sameModelFile: true });
  expect(same.scores).toMatchObject({ rows: 100, rejected: [0, 0], difference: { mean: 0, largest: 0 }, moved: {} });
  const folder = changedPackage((yaml) =>
    yaml.replace('ACCOUNT: 0, CARD: 1, CASH: 2, WALLET: 3', 'ACCOUNT: 3, CARD: 2, CASH: 1, WALLET: 0'),
  );
  const compared = await comparePackages(from, await loadPackage(folder));
  expect(compared.differences).toHaveLength(4);
  expect(compared.sameModelFile).toBe(true);
  const { difference, effects, space } = compared.scores!;
  expect(difference!.largest).toBeGreaterThan(0.001);
  expect(difference!.mean).toBeGreaterThan(0);
  expect(space).toBe('log_odds');
  const changed = effects.find((e) => e.column === 'remittance_type')!;
  expect(changed.from).toBeGreaterThan(0);
  expect(changed.to).not.toBe(changed.from);
  expect(comparisonText(compared)).toContain('columns.remittance_type.codes.CARD: 1 → 2');
});

checkTest('the command says it; without a background that both take there are no scores', async () => {
  const folder = changedPackage((yaml) => yaml.replace('min_probability: 0.85', 'min_probability: 0.9'));
  const { code, stdout, stderr } = await sluiceHere(['model', 'diff', CREDIT_DEFAULT, folder, '--json']);
  expect(code, stderr).toBe(0);
  const { scores, differences } = JSON.parse(stdout);
  expect(differences).toEqual([{ at: 'decisions.approve.min_probability', from: '0.85', to: '0.9' }]);
  expect(Object.keys(scores.moved)).toEqual(['approve → review']);
  const bare = changedPackage((yaml) => yaml.replace(/^explain:.*\n(?: .*\n)*/m, ''));
  const said = await sluiceHere(['model', 'diff', bare, bare]);
  expect([said.code, said.stdout]).toEqual([0, expect.stringContaining('no background sample of the two packages')]);
});
