// The same types on the reference path, which is chosen once for a process: csv-parse and JSON.parse, without a kernel.
import '../support/reference-decoder.ts';
import { afterAll, expect } from 'vitest';
import { checkTest, TIER } from '../support/tiers.ts';
import { Crossing } from './types/crossing.ts';
import { CELLS, TOKENS } from './types/texts.ts';

const crossing = new Crossing();
afterAll(() => crossing.close());
const oneIn = (n: number) => () => (TIER === 'campaigns' ? 1 : n);

checkTest('carriers as columns of the model', async () => {
  expect(await crossing.carriers('plain', oneIn(10))).toEqual([]);
  expect(await crossing.carriers('declared', oneIn(14))).toEqual([]);
});

checkTest('carriers that are passed through', async () => {
  expect(await crossing.passedThrough(TIER === 'campaigns' ? 1 : 3)).toEqual([]);
});

checkTest('cells of CSV, tokens of JSON', async () => {
  const cells = CELLS.map(({ t }, row) => `"${t.replaceAll('"', '""')}",${row}\n`);
  const tokens = TOKENS.map(([token], row) => `{"x": ${token}, "row": ${row}}\n`);
  const ways = ['plain', 'declared'] as const;
  expect(await crossing.texts('csv', CELLS, () => `x,row\n${cells.join('')}`, ways)).toEqual([]);
  expect(await crossing.texts('ndjson', TOKENS.map(([, value]) => value), () => tokens.join(''), ways)).toEqual([]); // biome-ignore format: one line
});
