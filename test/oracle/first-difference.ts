// Runs combinations until one differs: prints how many it took and what differs, or `none`.
//
// node test/oracle/first-difference.ts [combinations] [seed]
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from '../support/seeded-fast-check.ts';
import { combinations, type Entry } from './combinations.ts';
import { Judge } from './judge.ts';

const [count = '1000', seed = '7'] = process.argv.slice(2);
const judge = await Judge.open(mkdtempSync(path.join(tmpdir(), 'sluice-first-')));
// About as often as in a run of a thousand.
const entries: Entry[] = [
  ...Array<Entry>(7).fill('library'),
  ...Array<Entry>(8).fill('command'),
  ...Array<Entry>(4).fill('http'),
  'pipeline',
];
const arbitrary = combinations({ entries, models: ['trees', 'classes', 'value'] });
let n = 0;
for (const c of fc.sample(arbitrary, { numRuns: Number(count), seed: Number(seed) })) {
  n++;
  const found = await judge.differences(c).catch((error: Error) => [`threw ${error.message}`]);
  if (found.length === 0) continue;
  console.log(`${n} ${c.entry}, ${c.input} to ${c.output}: ${found[0]!.replaceAll('\n', ' ')}`);
  process.exit(1);
}
console.log('none');
process.exit(0);
