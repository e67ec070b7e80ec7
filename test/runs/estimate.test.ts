// How many machines a deadline needs: the fewest that end before it, with the margin that is stated.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { estimate, MARGIN } from '../../src/runs/shards/estimate.ts';
import { scratch, sluice } from '../support/cli.ts';
import { checkTest } from '../support/tiers.ts';

const measured = { startSeconds: 2, bytesPerSecond: 1e6, rowsPerSecond: 1e4, outputShare: 0.1 };

test('the fewest machines that end in time, margin and merging included', () => {
  for (let left = 5; left < 3000; left += 13) {
    for (const bytes of [1e6, 1e8, 1e9, 3e9]) {
      const merging = (2 * bytes * 0.1) / 1e9;
      const takes = (n: number) => MARGIN * (2 + bytes / 1e6 / n + (n > 1 ? merging : 0));
      const { machines, seconds, inShardsSeconds } = estimate(measured, bytes, left, 1e9);
      expect(seconds).toBeCloseTo(takes(1));
      if (machines === null) {
        expect(takes(10_000)).toBeGreaterThan(left);
        continue;
      }
      expect(inShardsSeconds).toBeCloseTo(takes(machines));
      expect(takes(machines)).toBeLessThanOrEqual(left + 1e-6);
      if (machines > 1) expect(takes(1)).toBeGreaterThan(left);
      if (machines > 2) expect(takes(machines - 1)).toBeGreaterThan(left);
    }
  }
});

test('a deadline that is over, or nearer than the start of the workers, has no number', () => {
  for (const left of [-10, 0, 2]) expect(estimate(measured, 1e9, left, 1e9).machines).toBe(null);
});

checkTest('plan --by measures on samples, plans as many shards as it needs, and says what it takes', async () => {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  writeFileSync(at('in.csv'), Buffer.concat([...generatePortfolio({ rows: 3000, seed: 2 })]));
  const run = (...args: string[]) =>
    sluice(['plan', 'in.csv', '-o', 'plan.json', '--workers', '1', ...args], { cwd: folder });
  const far = `${new Date().getFullYear() + 1}-01-01T06:00`;
  const { code, stdout } = await run('--by', far, '-m', 'credit-default', '--json');
  expect(code).toBe(0);
  const { shards, rows, foreseen } = JSON.parse(stdout);
  expect({ shards, rows, foreseen }).toMatchObject({
    shards: 1,
    rows: 3000,
    foreseen: { machines: 1, margin: MARGIN, by: far, deadline: Date.parse(far) },
  });
  expect(foreseen.rowsPerSecond).toBeGreaterThan(0);
  expect(foreseen.seconds).toBeGreaterThan(0);
  expect(JSON.parse(readFileSync(at('plan.json'), 'utf8'))).toMatchObject({ shards: 1 });
  expect(await run('--by', '2020-01-01T06:00', '-m', 'credit-default')).toMatchObject({ code: 1, stderr: expect.stringContaining('[deadline_unreachable]') }); // biome-ignore format: one line
  expect(await run('--by', far)).toMatchObject({ code: 2, stderr: expect.stringContaining('needs --model') });
  expect(await run()).toMatchObject({ code: 2, stderr: expect.stringContaining('missing --shards') });
});
