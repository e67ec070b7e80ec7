// The programs of docs/exporting.md run as they are written, with the packages of the Python tests.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { VERSION } from '../../src/core/version.ts';
import { testProgram } from './program-of-page.ts';

const PAGE = readFileSync('docs/exporting.md', 'utf8');
const BY_HAND = 'test/docs/sklearn-requirements.txt';
const CLIENT = path.join('clients', 'python', 'tests', 'requirements.txt');
const GENERATE = 'npx sluice generate --rows 5000 --outcome -o train.csv';

/** Text of a section of the page. */
function sectionOf(title: string): string {
  const from = PAGE.indexOf(`\n## ${title}\n`);
  expect(from, title).toBeGreaterThan(0);
  const to = PAGE.indexOf('\n## ', from + 1);
  return PAGE.slice(from, to < 0 ? undefined : to);
}

/** Blocks of a language in a section. */
const blocksIn = (title: string, language: string): string[] =>
  [...sectionOf(title).matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, text]) => text!);

test('the page installs what the tests install', () => {
  const pins = readFileSync(BY_HAND, 'utf8').trim().split('\n');
  expect(sectionOf('scikit-learn without the client')).toContain(`.venv/bin/pip install ${pins.join(' ')}\n`);
  const [install] = blocksIn('Installing the client', 'sh');
  const packages = install!.trim().split(' ').slice(-4);
  const tested = readFileSync(CLIENT, 'utf8').split('\n');
  expect(packages.filter((name) => !tested.some((line) => line.startsWith(`${name}==`)))).toEqual([]);
  expect(install).toContain(`./sluice_client-${VERSION}-py3-none-any.whl `);
  expect(PAGE).toContain(GENERATE);
});

const [byHand] = blocksIn('scikit-learn without the client', 'python');
const written = { page: `\`\`\`python\n${byHand}\`\`\``, requirements: BY_HAND };
await testProgram('the exported pipeline agrees with scikit-learn and scores a file', written, async (session) => {
  const [, commands] = blocksIn('scikit-learn without the client', 'sh');
  const output = await session.runAsync(`set -e\n${commands}`);
  expect(output).toContain('5,000 rows agree with the training library');
  expect(output).toContain('1,000 rows read = 1,000 scored + 0 rejected');
});

const withClient = `export PYTHONPATH='${path.resolve('clients/python/src')}'\n${GENERATE}`;

for (const [library, reference] of [
  ['scikit-learn', 'credit:1'],
  ['LightGBM', 'lightgbm:1'],
  ['XGBoost', 'xgboost:1'],
  ['CatBoost', 'catboost:1'],
] as const) {
  const programs = blocksIn(library, 'python');
  const [commands] = blocksIn(library, 'sh');
  for (const [at, program] of programs.entries()) {
    const way = at === 0 ? 'with sluice.register' : 'by hand';
    // In the check, the tests of the client register models of each library, and the graph of one is exported by hand.
    const page = { page: `\`\`\`python\n${program}\`\`\``, requirements: CLIENT, onlyInCampaigns: true };
    await testProgram(`${library} ${way}`, page, async (session) => {
      const last = at === 0 ? '' : commands;
      const output = await session.runAsync(`set -e\n${withClient}\n.venv/bin/python train.py\n${last}`);
      if (at === 0) expect(output).toMatch(new RegExp(`<ReportCard ${reference}: registered, \\d+ rows agree within`));
      else expect(output).toContain('5,000 rows agree with the training library');
    });
  }
}
