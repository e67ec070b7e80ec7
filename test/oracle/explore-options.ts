// Runs combinations of run options without stopping at the first difference, and prints the smallest case of each kind.
//
// node test/oracle/explore-options.ts [combinations] [seed]
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from '../support/seeded-fast-check.ts';
import { combinations, MODELS } from './combinations.ts';
import { PACKAGES } from './entries.ts';
import { OracleModel } from './oracle.ts';
import { runOptionDifferences, runOptions } from './run-options.ts';

const [count = '200', seed = String(Date.now() % 2 ** 31)] = process.argv.slice(2);
const models = new Map<string, OracleModel>();
for (const name of Object.keys(MODELS)) {
  models.set(name, await OracleModel.open(path.join(PACKAGES[name === 'typed-columns' ? 1 : 0]!, name, '1')));
}
const scratch = mkdtempSync(path.join(tmpdir(), 'sluice-options-'));
const effects = new Map<string, string>();
const arbitrary = fc.tuple(combinations({ entries: ['command'], models: ['trees', 'classes', 'value'] }), runOptions());
const kinds = new Map<string, { n: number; text: string }>();
let [bad, n] = [0, 0];
for (const [c, o] of fc.sample(arbitrary, { numRuns: Number(count), seed: Number(seed) })) {
  const folder = path.join(scratch, String(n++));
  mkdirSync(folder);
  const found = await runOptionDifferences(c, o, { folder, models, effects }).catch((e: Error) => [`threw ${e.stack}`]);
  rmSync(folder, { recursive: true, force: true });
  if (found.length === 0) continue;
  bad++;
  const kind = found[0]!
    .replace(/\d+/g, 'N')
    .replace(/"[^"]*"/g, 'T')
    .slice(0, 90);
  const text = `${found.join('\n  ')}\n  ${JSON.stringify(o)}\n  ${JSON.stringify(c)}`;
  const known = kinds.get(kind);
  if (!known || text.length < known.text.length) kinds.set(kind, { n: (known?.n ?? 0) + 1, text });
  else known.n++;
}
for (const [kind, { n: times, text }] of [...kinds].sort((a, b) => b[1].n - a[1].n))
  console.log(`${times} × ${kind}\n  ${text}`);
console.log(`${count} combinations of seed ${seed}, ${bad} differ`);
rmSync(scratch, { recursive: true, force: true });
process.exit(0);
