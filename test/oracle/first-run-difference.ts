// Runs combinations of run options until one differs: prints how many it took and what differs, or `none`.
//
// node test/oracle/first-run-difference.ts [combinations] [seed]
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from '../support/seeded-fast-check.ts';
import { combinations, MODELS, type ModelName } from './combinations.ts';
import { folderOf } from './entries.ts';
import { OracleModel } from './oracle.ts';
import { runOptionDifferences, runOptions } from './run-options.ts';

const [count = '1000', seed = '7'] = process.argv.slice(2);
const models = new Map<string, OracleModel>();
for (const name of Object.keys(MODELS) as ModelName[]) {
  models.set(name, await OracleModel.open(path.join(folderOf(name), name, '1')));
}
const scratch = mkdtempSync(path.join(tmpdir(), 'sluice-first-run-'));
const effects = new Map<string, string>();
const cases = fc.tuple(combinations({ entries: ['command'], models: ['trees', 'classes', 'value'] }), runOptions());
let n = 0;
for (const [c, o] of fc.sample(cases, { numRuns: Number(count), seed: Number(seed) })) {
  const folder = path.join(scratch, String(n++));
  mkdirSync(folder);
  const setting = { folder, models, effects };
  const found = await runOptionDifferences(c, o, setting).catch((error: Error) => [`threw ${error.message}`]);
  rmSync(folder, { recursive: true, force: true });
  if (found.length === 0) continue;
  console.log(`${n} ${c.input} to ${c.output}: ${found[0]!.replaceAll('\n', ' ')}`);
  rmSync(scratch, { recursive: true, force: true });
  process.exit(1);
}
rmSync(scratch, { recursive: true, force: true });
console.log('none');
process.exit(0);
