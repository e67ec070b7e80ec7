// Runs many combinations without stopping at the first difference, and prints the smallest case of each kind of difference.
//
// node test/oracle/explore.ts [combinations] [seed] [entry,entry]
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from '../support/seeded-fast-check.ts';
import { type Case, combinations, ENTRIES, type Entry, MODELS, type ModelName } from './combinations.ts';
import { Judge } from './judge.ts';

const [count = '500', seed = String(Date.now() % 2 ** 31), entries = ENTRIES.join(',')] = process.argv.slice(2);
const judge = await Judge.open(mkdtempSync(path.join(tmpdir(), 'sluice-explore-')));
const native = (Object.keys(MODELS) as ModelName[]).filter((name) => name !== 'typed-columns');
const arbitrary = combinations({ entries: entries.split(',') as Entry[], models: native });
const kinds = new Map<string, { n: number; c: Case; found: string }>();
const began = performance.now();
let bad = 0;
for (const c of fc.sample(arbitrary, { numRuns: Number(count), seed: Number(seed) })) {
  const found = await judge.differences(c).catch((error: Error) => [`threw ${error.stack}`]);
  if (found.length === 0) continue;
  bad++;
  // Values differ from case to case; what is left of a text tells its kind.
  const kind = `${c.entry}: ${found[0]!
    .replace(/\d+/g, 'N')
    .replace(/"[^"]*"/g, 'T')
    .slice(0, 90)}`;
  const known = kinds.get(kind);
  const size = JSON.stringify(c).length;
  if (!known || size < JSON.stringify(known.c).length)
    kinds.set(kind, { n: (known?.n ?? 0) + 1, c, found: found.join('\n  ') });
  else known.n++;
}
for (const [kind, { n, c, found }] of [...kinds].sort((a, b) => b[1].n - a[1].n)) {
  console.log(`${n} × ${kind}\n  ${found}\n  ${JSON.stringify(c)}`);
}
console.log(
  `${count} combinations of seed ${seed}, ${bad} differ, ${((performance.now() - began) / 1000).toFixed(1)} s`,
);
await judge.close();
rmSync(judge.folder, { recursive: true, force: true });
process.exit(0);
