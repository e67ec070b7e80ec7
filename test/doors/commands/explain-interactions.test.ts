// `sluice explain --interactions`: what two columns make together, held against predictions alone.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { CREDIT_COLUMNS } from '../../support/score.ts';

const BUNDLED = path.resolve('src/bundled/credit-default');

interface Told {
  interpretation: { interactions: { columns: [string, string]; effect: number }[]; space: string };
}

/** A registry with the bundled model, whose background is one of its applications. */
function oneRowOfBackground(): { registry: string; header: string; row: string[] } {
  const registry = scratch();
  mkdirSync(path.join(registry, 'one'));
  copyUnlocked(path.join(BUNDLED, '1'), path.join(registry, 'one', '1'));
  const yaml = path.join(registry, 'one', '1', 'model.yaml');
  writeFileSync(yaml, readFileSync(yaml, 'utf8').replace('id: credit-default', 'id: one'));
  const background = path.join(registry, 'one', '1', 'background.csv');
  const [header, first] = readFileSync(background, 'utf8').split('\n') as [string, string];
  writeFileSync(background, `${header}\n${first}\n`);
  return { registry, header, row: first.split(',') };
}

test('two columns that differ from the background: together they make what they make beyond each alone', async () => {
  const { registry, header, row } = oneRowOfBackground();
  const names = header.split(',');
  const cwd = scratch();
  const other: Record<string, string> = {
    amount: '4000',
    income: '9000',
    monthly_payment: '2900',
  };
  const pairs = Object.keys(other).flatMap((a, i, all) => all.slice(i + 1).map((b) => [a, b] as const));
  const changed = (...columns: string[]) =>
    row.map((cell, i) => (columns.includes(names[i]!) ? other[names[i]!]! : cell)).join(',');
  const lines = pairs.flatMap(([a, b]) => [changed(), changed(a), changed(b), changed(a, b)]);
  writeFileSync(path.join(cwd, 'in.csv'), `${[header, ...lines].join('\n')}\n`);
  const scored = await sluiceHere(['score', 'in.csv', '-m', 'one', '--registry', registry, '-o', 'out.ndjson'], {
    cwd,
  });
  expect(scored.code, scored.stderr).toBe(0);
  const margins = readFileSync(path.join(cwd, 'out.ndjson'), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => {
      const { probability: p } = JSON.parse(line) as { probability: number };
      return Math.log(p / (1 - p));
    });
  let largest = 0;
  for (const [k, pair] of pairs.entries()) {
    const [none, one, two, both] = margins.slice(4 * k, 4 * k + 4) as [number, number, number, number];
    const args = ['explain', 'in.csv', '--row', String(4 * k + 4), '-m', 'one', '--registry', registry];
    const { code, stdout, stderr } = await sluiceHere([...args, '--json', '--interactions', '500'], { cwd });
    expect(code, stderr).toBe(0);
    const { interactions, space } = (JSON.parse(stdout) as Told).interpretation;
    expect(space).toBe('log_odds');
    const [told] = interactions;
    const effect = told?.effect ?? 0;
    expect(interactions.length).toBeLessThanOrEqual(1);
    if (told) expect([...told.columns].sort()).toEqual([...pair].sort());
    expect(effect).toBeCloseTo(both - one - two + none, 4);
    largest = Math.max(largest, Math.abs(effect));
  }
  expect(largest).toBeGreaterThan(0.01);
});

test('the strongest first, in words as well; a model that has none is told by a code', async () => {
  const cwd = scratch();
  const made = await sluiceHere(['generate', '--rows', '5', '-o', 'in.csv'], { cwd });
  expect(made.code, made.stderr).toBe(0);
  const explain = (...more: string[]) => sluiceHere(['explain', 'in.csv', '--row', '3', ...more], { cwd });
  const { stdout } = await explain('-m', 'credit-default', '--json', '--interactions', '500');
  const { interactions } = (JSON.parse(stdout) as Told).interpretation;
  const sizes = interactions.map(({ effect }) => Math.abs(effect));
  expect(sizes.length).toBeGreaterThan(20);
  expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
  const text = await explain('-m', 'credit-default', '--interactions', '1');
  expect(text.stdout).toContain(
    `interactions, already included in the effects of both columns:\n  ${interactions[0]!.columns.join(' × ')}  `,
  );
  expect((await explain('-m', 'credit-default')).stdout).not.toContain('together');
  const linear = await explain('-m', path.basename(path.dirname(CREDIT_COLUMNS)), '--registry', path.dirname(path.dirname(CREDIT_COLUMNS)), '--interactions', '1'); // biome-ignore format: one line
  expect([linear.code, linear.stderr]).toEqual([
    1,
    expect.stringMatching(/interactions.*\[interpretation_unavailable\]/),
  ]);
});
