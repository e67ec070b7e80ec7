// The same values through the Python client: every kind of frame of them is scored by the rule, or the client refuses its column.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, expect } from 'vitest';
import { scratch } from '../support/cli.ts';
import { pythonTest } from '../support/python-environment.ts';
import { startProcess } from '../support/service.ts';
import { TIER } from '../support/tiers.ts';
import { CARRIERS, isTable, type Table } from './types/carriers.ts';
import { narrow, PLAIN, registryOfKinds } from './types/entry-points.ts';
import { ALL, inputOf, type KindColumn, shareOf } from './types/model.ts';
import { meaningOf, takesKind } from './types/rule.ts';

const kinds = registryOfKinds();
afterAll(() => kinds.remove());

const CLIENT = path.resolve('clients/python');
const REQUIREMENTS = path.join('clients', 'python', 'tests', 'service', 'requirements.txt');

const FRAMES = ['table', 'batch', 'reader', 'pandas', 'polars', 'duckdb', 'dictionaries'] as const;
type Frame = (typeof FRAMES)[number];

/** Frames that do not have the values of the carrier, or have them as another type. */
function isOther({ name, kind }: Table, frame: Frame): boolean {
  if (/period/.test(name)) return true;
  if (/extension<(uuid|json|bool8)>/.test(name)) return frame !== 'table' && frame !== 'batch' && frame !== 'reader';
  // Decimals of a dictionary are sent as texts, of which none is too large for a category.
  return frame === 'dictionaries' && kind === 'decimal';
}

function caseOf(table: Table, spec: KindColumn, frames: readonly Frame[]): object {
  const column = { ...spec, input: inputOf(spec) };
  const wanted = table.values.map((value) => {
    const meaning = meaningOf(value, column, PLAIN);
    return 'code' in meaning ? meaning.code : shareOf(spec, meaning.feature) + 0;
  });
  return {
    name: `${table.name} for ${spec.name}`,
    model: narrow(spec),
    file: table.file,
    wanted: takesKind(column, table.kind, PLAIN) ? wanted : null,
    frames: frames.filter((frame) => !isOther(table, frame)),
  };
}

const CHECKED = ['number', 'code_marked'];

await pythonTest(REQUIREMENTS, 'carriers as every kind of frame', async (python) => {
  const tables = CARRIERS.filter(isTable).filter(({ format }) => format === 'arrow');
  const specs = TIER === 'campaigns' ? ALL : ALL.filter(({ name }) => CHECKED.includes(name));
  // A frame of each carrier in the check, and a third of them for each column.
  const cases = specs.flatMap((spec, c) =>
    tables.flatMap((table, i) => {
      if (TIER === 'campaigns') return [caseOf(table, spec, FRAMES)];
      const isExtension = table.name.includes('extension');
      return (i + c) % 3 === 0 || isExtension ? [caseOf(table, spec, [FRAMES[isExtension ? 0 : (i + 2 * c) % FRAMES.length]!])] : []; // biome-ignore format: one line
    }),
  );
  const certificate = path.join(scratch(), 'dev.crt');
  const { port, token } = await startProcess(kinds.folder, ['--cert-out', certificate]);
  const env = { ...process.env, PYTHONPATH: [path.join(CLIENT, 'src'), path.join(CLIENT, 'tests', 'service')].join(path.delimiter), SLUICE_URL: `https://localhost:${port}`, SLUICE_API_KEY: token, SLUICE_CA: certificate }; // biome-ignore format: one line
  const child = spawn(python, [path.resolve('test/oracle/types/frames.py')], { env, stdio: ['pipe', 'pipe', 'pipe'] });
  const printed = Promise.all([text(child.stdout), text(child.stderr)]);
  child.stdin.on('error', () => {});
  child.stdin.end(cases.map((one) => `${JSON.stringify(one)}\n`).join(''));
  const [differences, messages] = await printed;
  expect(messages).toMatch(/\d+ frames\n$/);
  expect(differences.split('\n').filter(Boolean)).toEqual([]);
  expect(Number(/(\d+) frames/.exec(messages)![1])).toBeGreaterThan(cases.length * 0.9);
});
