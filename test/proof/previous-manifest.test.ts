import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { score } from '../../src/doors/commands/score.ts';
import { scratch } from '../support/cli.ts';

test('an earlier manifest that cannot be read is an error of the output, and nothing is published', async () => {
  const folder = scratch();
  const [input, output] = [path.join(folder, 'in.csv'), path.join(folder, 'out.csv')];
  writeFileSync(input, Buffer.concat([...generatePortfolio({ rows: 10, seed: 1, faults: 0 })]));
  mkdirSync(`${output}.manifest.json`);
  await expect(score(input, { model: 'credit-default', onInvalid: 'report', output, quiet: true, workers: 1 })).rejects.toMatchObject({
    code: 'output_failed',
    message: expect.stringContaining('out.csv.manifest.json cannot be read: EISDIR'),
  }); // biome-ignore format: one line
  expect(existsSync(output)).toBe(false);
});
