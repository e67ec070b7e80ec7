// The export of a scikit-learn pipeline in docs/models.md runs as it is written.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { testProgram } from './program-of-page.ts';

const REQUIREMENTS = 'test/docs/sklearn-requirements.txt';
const [, SECTION] = /\n## Exporting a scikit-learn pipeline\n([\s\S]*?)\n## /.exec(
  readFileSync('docs/models.md', 'utf8'),
)!;

test('the page installs what the test installs', () => {
  const pins = readFileSync(REQUIREMENTS, 'utf8').trim().split('\n');
  expect(SECTION).toContain(`.venv/bin/pip install ${pins.join(' ')}\n`);
});

const page = { page: SECTION!, requirements: REQUIREMENTS };
await testProgram('the exported pipeline agrees with scikit-learn and scores a file', page, async (session) => {
  const [, , commands] = [...SECTION!.matchAll(/```(?:sh|python)\n([\s\S]*?)^```$/gm)].map(([, text]) => text!);
  const output = await session.runAsync(`set -e\n${commands}`);
  expect(output).toContain('5,000 rows agree with the training library');
  expect(output).toContain('1,000 rows read = 1,000 scored + 0 rejected');
});
