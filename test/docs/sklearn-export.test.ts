// The export of a scikit-learn pipeline in docs/models.md runs as it is written.
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Session } from '../../tools/readme/session.ts';
import { pythonWith } from '../support/python-environment.ts';
import { IN_CHECK, SKIPPED, TIER } from '../support/tiers.ts';
import { missingTools } from '../support/tools.ts';

const REQUIREMENTS = 'test/docs/sklearn-requirements.txt';
const [, SECTION] = /\n## Exporting a scikit-learn pipeline\n([\s\S]*?)\n## /.exec(
  readFileSync('docs/models.md', 'utf8'),
)!;

test('the page installs what the test installs', () => {
  const pins = readFileSync(REQUIREMENTS, 'utf8').trim().split('\n');
  expect(SECTION).toContain(`.venv/bin/pip install ${pins.join(' ')}\n`);
});

const missing = missingTools('bash', 'Python 3 with venv');
const trained = TIER === 'quick' || missing !== null ? { missing } : await pythonWith(REQUIREMENTS);
const NAME = 'the exported pipeline agrees with scikit-learn and scores a file';

if (TIER === 'quick') test.skip(`${NAME}${SKIPPED}${IN_CHECK}`);
else if (!('python' in trained)) test.skip(`${NAME}${SKIPPED}needs ${trained.missing}`);
else {
  test(NAME, async () => {
    const session = new Session();
    onTestFinished(() => session.close());
    symlinkSync(path.resolve(trained.python, '../..'), path.join(session.folder, '.venv'));
    const [, program] = /```python\n([\s\S]*?)^```$/m.exec(SECTION!)!;
    writeFileSync(path.join(session.folder, 'train.py'), program!);
    const [, , commands] = [...SECTION!.matchAll(/```(?:sh|python)\n([\s\S]*?)^```$/gm)].map(([, text]) => text!);
    const output = await session.runAsync(`set -e\n${commands}`);
    expect(output).toContain('5,000 rows agree with the training library');
    expect(output).toContain('1,000 rows read = 1,000 scored + 0 rejected');
  });
}
