// Removes the defences of the threat model one at a time, in a copy of the source: the test of each has to fail without it.
import { existsSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { expect, test } from 'vitest';
import { SourceCopy, type TestRun } from '../support/source-copy.ts';
import { campaignTest, ONLY } from '../support/tiers.ts';
import { COST_DEFENCES } from './cost-defences.ts';
import type { Defence } from './defence.ts';
import { DEFENCES } from './defences.ts';

const ALL = [...DEFENCES, ...COST_DEFENCES];
const COPIES = 2;

test('defences have names of their own', () => {
  expect(new Set(ALL.map(({ name }) => name)).size).toBe(ALL.length);
});

test.each(ALL)('can be removed and has a test: $name', ({ file, find, replace, test: testFile }) => {
  expect(existsSync(testFile), testFile).toBe(true);
  const source = readFileSync(file, 'utf8');
  expect(source.split(find)).toHaveLength(2);
  const without = source.replace(find, () => replace);
  expect(without).not.toBe(source);
  // A test that fails because the source cannot be parsed shows nothing.
  expect(() => stripTypeScriptTypes(without)).not.toThrow();
});

/** Does the work of a list, as many items at once as there are copies of the source. */
async function inCopies<T>(items: readonly T[], work: (item: T, copy: SourceCopy) => Promise<void>): Promise<void> {
  const left = [...items];
  await Promise.all(
    Array.from({ length: COPIES }, async () => {
      const copy = await SourceCopy.create();
      try {
        for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item, copy);
      } finally {
        await copy.remove();
      }
    }),
  );
}

/** With `--only REGEX`, only defences whose name, source or test file matches are removed. */
campaignTest('no defence can be removed without its test failing', async () => {
  const defences = ALL.filter(({ name, file, test: testFile }) => ONLY?.test(`${name}\n${file}\n${testFile}`) ?? true);
  const show = (label: string, began: number, { outcome, failure }: TestRun) =>
    console.log(`${outcome} (${Math.round((Date.now() - began) / 1000)} s): ${label}${failure ? ` — ${failure}` : ''}`);

  const unchanged: string[] = [];
  await inCopies([...new Set(defences.map((d) => d.test))], async (testFile, copy) => {
    const began = Date.now();
    const run = await copy.run(testFile);
    show(`unchanged source, ${testFile}`, began, run);
    if (run.outcome !== 'passed') unchanged.push(testFile);
  });
  expect(unchanged, 'fail with unchanged source').toEqual([]);

  const runs = new Map<Defence, TestRun>();
  await inCopies(defences, async (defence, copy) => {
    const began = Date.now();
    const run = await copy.runWithout(defence);
    show(defence.name, began, run);
    runs.set(defence, run);
  });
  const isCaught = ({ outcome }: TestRun): boolean => outcome === 'failed' || outcome === 'no end';
  const survivors = defences.filter((defence) => !isCaught(runs.get(defence)!));
  console.table(
    defences.map((d) => ({ defence: d.name, test: d.test, outcome: isCaught(runs.get(d)!) ? 'caught' : 'survived' })),
  );
  console.log(`${defences.length - survivors.length} of ${defences.length} removals caught`);
  expect(survivors.map(({ name }) => name)).toEqual([]);
});
