// SLUICE_DECODER=reference: no kernel anywhere, and the same bytes.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { MAIN, scratch, sluice } from '../../support/cli.ts';
import { checkTest } from '../../support/tiers.ts';

/** Large enough for all kernels: clean rows, rows with quotes, faulty ones and a quote that stays open. */
function portfolio(folder: string): string {
  const file = path.join(folder, 'portfolio.csv');
  const text = Buffer.concat([...generatePortfolio({ rows: 20_000, seed: 4, faults: 200 })]).toString();
  const lines = text.trimEnd().split('\n').map((line, i) => (i % 50 === 3 ? line.replace(/^([^,]+)/, '"$1"') : line)); // biome-ignore format: one line
  lines.splice(900, 0, `"open,${lines[900]}`);
  writeFileSync(file, `${lines.join('\r\n')}\r\n`);
  return file;
}

/** Modules made in a run, without the numbers in their names. */
const kernelsIn = (folder: string): string[] => [...new Set(readdirSync(folder).map((f) => f.replace(/-[0-9a-f]{8}\.wat$/, '')))].sort(); // biome-ignore format: one line

/** The same rows as an array of JSON, and what is no object. */
function arrayOf(csv: string, folder: string): string {
  const file = path.join(folder, 'portfolio.json');
  const [header, ...lines] = readFileSync(csv, 'utf8').split('\r\n').map((line) => line.split(',')); // biome-ignore format: one line
  const objects = lines.map((cells) => JSON.stringify(Object.fromEntries(header!.map((name, c) => [name, cells[c] ?? null])))); // biome-ignore format: one line
  objects.splice(900, 0, '{"amount":[1,{"a":"]}"}]}', '3', '{"amount":"\\"}"}');
  writeFileSync(file, `[${objects.join(',\n')}]`);
  return file;
}

const SHARED = ['drift-kernel', 'tree-kernel'];

for (const [format, own] of [
  ['csv', ['line-kernel', 'row-kernel']],
  ['json', ['element-kernel', 'json-row-kernel']],
] as const) {
  checkTest(
    `a file is scored to the same bytes with the reference decoder, and without a kernel that reads or writes: ${format}`,
    async () => {
      const folder = scratch();
      const csv = portfolio(folder);
      const file = format === 'csv' ? csv : arrayOf(csv, folder);
      const scored = async (decoder: string) => {
        const [out, rejects, kernels] = ['scored.csv', 'rejects.csv', 'kernels'].map((f) => path.join(folder, `${decoder}-${f}`)) as [string, string, string]; // biome-ignore format: one line
        const args = ['score', file, '-m', 'credit-default', '-o', out, '--rejects', rejects, '--workers', '2'];
        const run = await sluice(args, {
          env: { SLUICE_DECODER: decoder, SLUICE_DUMP_WAT: kernels, SLUICE_CACHE: 'off' },
        });
        expect(run.code, run.stderr).toBe(3);
        return { out: readFileSync(out), rejects: readFileSync(rejects), kernels: kernelsIn(kernels) };
      };
      const [fast, reference] = [await scored('fast'), await scored('reference')];
      expect(fast.out.length).toBeGreaterThan(200_000);
      expect(fast.rejects.length).toBeGreaterThan(5_000);
      expect(reference.out.equals(fast.out)).toBe(true);
      expect(reference.rejects.equals(fast.rejects)).toBe(true);
      expect(fast.kernels).toEqual([...SHARED, ...own].sort());
      expect(reference.kernels).toEqual(['tree-kernel']);
    },
  );
}

test.each([['score', 'missing.csv', '-m', 'credit-default'], ['serve'], ['run', 'missing.yaml']])(
  'a decoder nobody knows is an error of usage, whatever the command: %s',
  async (...args) => {
    const run = await sluice(args, { env: { SLUICE_DECODER: 'slow' } });
    expect([run.code, run.stdout]).toEqual([2, '']);
    expect(run.stderr).toContain('usage');
    expect(run.stderr).toContain('SLUICE_DECODER is "slow"; it can be fast (the default) or reference');
    expect(run.stderr).not.toContain(MAIN);
  },
);
