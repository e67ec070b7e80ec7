// A pattern of inputs, night after night: what was scored by the same package and options is left as it is, told by content.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'; // biome-ignore format: one line
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { sluiceHere } from '../support/cli.ts';
import { copyUnlocked } from '../support/registries/packages.ts';
import { checkTest } from '../support/tiers.ts';

const text = (seed: number) => Buffer.concat([...generatePortfolio({ rows: 40, seed, faults: 3, ids: true })]);

checkTest('a second night scores what is new or changed, and nothing else', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-nights-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const at = (...names: string[]) => path.join(folder, ...names);
  for (const made of ['in', 'out']) mkdirSync(at(made));
  copyUnlocked('src/bundled', at('models'));
  for (const [i, name] of ['a', 'b', 'c'].entries()) writeFileSync(at('in', `${name}.csv`), text(i));
  const pipeline = (score = '', { control = '', gate = '' } = {}) =>
    writeFileSync(
      at('nightly.yaml'),
      `model: credit-default\nsource: { type: file, path: 'in/*.csv'${control} }\nsink: { type: file, path: 'out/{name}.csv' }\ndead_letter: { type: file, path: 'out/{name}.rejects.csv' }\nscore: { passthrough: [application_id]${score} }\nrun_records: records\n${gate}`,
    );
  pipeline();
  /** Names of the inputs that a night scores, by what became of their outputs. */
  const night = async (...more: string[]): Promise<string[]> => {
    for (const name of readdirSync(at('out'))) utimesSync(at('out', name), 1, 1);
    const run = await sluiceHere(['run', 'nightly.yaml', '--json', '--registry', 'models', ...more], { cwd: folder });
    expect(run.code, run.stderr).toBe(3);
    const scored = readdirSync(at('in'))
      .map((name) => name.slice(0, -4))
      .filter((name) => statSync(at('out', `${name}.csv`)).mtimeMs > 1000);
    const inputs = readdirSync(at('in')).length;
    const { rows, inputsDoneBefore, rejected, rejectedBefore } = JSON.parse(run.stdout);
    expect([rows, inputsDoneBefore]).toEqual([scored.length * 40, inputs - scored.length]);
    const lists = readdirSync(at('out')).filter((name) => name.endsWith('.rejects.csv'));
    const listed = lists.flatMap((name) => readFileSync(at('out', name), 'utf8').trimEnd().split('\n').slice(1));
    expect(rejected + rejectedBefore).toBe(listed.length);
    const record = readdirSync(at('records')).sort().at(-1)!;
    expect(JSON.parse(readFileSync(at('records', record), 'utf8'))).toMatchObject({ exitCode: 3, state: 'rejected_rows', rows, rejected }); // biome-ignore format: one line
    return scored;
  };
  expect(await night()).toEqual(['a', 'b', 'c']);
  expect(await night()).toEqual([]);
  writeFileSync(at('in', 'b.csv'), text(7));
  writeFileSync(at('in', 'd.csv'), text(8));
  // The same content under another date is the same input.
  utimesSync(at('in', 'a.csv'), 5, 5);
  expect(await night()).toEqual(['b', 'd']);
  // What cannot be told to be whole is made again.
  rmSync(at('out', 'a.csv'));
  writeFileSync(at('out', 'b.rejects.csv'), readFileSync(at('out', 'b.rejects.csv'), 'utf8').slice(0, -9));
  writeFileSync(at('out', 'c.csv.manifest.json'), readFileSync(at('out', 'c.csv.manifest.json'), 'utf8').replace('sha256', 'sha257')); // biome-ignore format: one line
  expect(await night()).toEqual(['a', 'b', 'c']);
  pipeline(', interpretation: reasons');
  expect(await night()).toEqual(['a', 'b', 'c', 'd']);
  expect(await night('--restart')).toEqual(['a', 'b', 'c', 'd']);
  const model = at('models', 'credit-default', '1', 'model.yaml');
  writeFileSync(model, `${readFileSync(model, 'utf8')}\n# Another package, whatever it does.\n`);
  expect(await night()).toEqual(['a', 'b', 'c', 'd']);
  expect(await night()).toEqual([]);
  // A gate judges what was published without it, or with other limits.
  const failing = async () => {
    const { code, stderr } = await sluiceHere(['run', 'nightly.yaml', '--registry', 'models'], { cwd: folder });
    return [code, stderr.match(/\d of 4 inputs failed|\[\w+\]/g)?.slice(0, 2)];
  };
  pipeline(', interpretation: reasons', { gate: 'gate: { max_rejects: 0 }\n' });
  expect(await failing()).toEqual([4, ['4 of 4 inputs failed', '[gate_stopped]']]);
  pipeline(', interpretation: reasons', { gate: 'gate: { max_rejects: 0.5 }\n' });
  expect(await night()).toEqual(['a', 'b', 'c', 'd']);
  expect(await night()).toEqual([]);
  // The totals of the sender are compared as well.
  for (const name of ['a', 'b', 'c', 'd']) writeFileSync(at('in', `${name}.csv.ctl`), 'rows=40\n');
  pipeline(', interpretation: reasons', {
    gate: 'gate: { max_rejects: 0.5 }\n',
    control: ", control: { file: '{path}.ctl' }",
  });
  expect(await failing()).toEqual([3, undefined]);
  writeFileSync(at('in', 'b.csv.ctl'), 'rows=41\n');
  expect(await failing()).toEqual([1, ['1 of 4 inputs failed', '[control_total_mismatch]']]);
});
