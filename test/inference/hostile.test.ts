// A model made to harm is refused within bounds, by whatever door it comes, and never outlives a SIGTERM.
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { MAIN, scratch } from '../support/cli.ts';
import { costOf, type ProcessCost } from '../support/cost-of.ts';
import { HOSTILE } from '../support/hostile-graphs.ts';
import { campaignTest, checkTest, TIER, times } from '../support/tiers.ts';

const GRAPHS = times('hostile', { quick: 0, check: 1, campaigns: 100 });
const MOST_CPU_SECONDS = 10;
const MOST_MB = 640;

/** A registry with the graph as model `hostile`, and rows for it. */
function registryWith(bytes: Uint8Array): { registry: string; onnx: string; rows: string; training: string } {
  const folder = scratch();
  const version = path.join(folder, 'models', 'hostile', '1');
  mkdirSync(version, { recursive: true });
  const onnx = path.join(version, 'model.onnx');
  writeFileSync(onnx, bytes);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const manifest = {
    id: 'hostile',
    version: 1,
    task: 'regression',
    outcome: 'ok',
    onnx: { file: 'model.onnx', sha256, value: 'y' },
    columns: [{ name: 'x', kind: 'number', missing: { values: [''], as: 'error' } }],
    inputs: [{ name: 'x', type: 'float32', columns: ['x'] }],
    output: { kind: 'value' },
  };
  writeFileSync(path.join(version, 'model.yaml'), JSON.stringify(manifest));
  const numbers = Array.from({ length: 200 }, (_, i) => `${i % 17}`);
  const rows = path.join(folder, 'rows.csv');
  writeFileSync(rows, `x\n${numbers.join('\n')}\n`);
  const training = path.join(folder, 'train.csv');
  writeFileSync(training, `x,ok\n${numbers.map((n) => `${n},${Number(n) * 1.5}`).join('\n')}\n`);
  return { registry: path.join(folder, 'models'), onnx, rows, training };
}

const DOORS: readonly [string, (at: ReturnType<typeof registryWith>) => string[]][] = [
  ['score', ({ registry, rows }) => ['score', rows, '--model', 'hostile', '--registry', registry, '--workers', '2', '-o', path.join(registry, 'out.csv')]], // biome-ignore format: one line
  ['score --evaluator onnxruntime', ({ registry, rows }) => ['score', rows, '--model', 'hostile', '--registry', registry, '--workers', '2', '--evaluator', 'onnxruntime', '-o', path.join(registry, 'out.csv')]], // biome-ignore format: one line
  ['model verify', ({ registry }) => ['model', 'verify', 'hostile', '--registry', registry]],
  ['model add', ({ registry, onnx, training }) => ['model', 'add', onnx, '--id', 'harmful', '--training-data', training, '--registry', registry]], // biome-ignore format: one line
];

const told = (name: string, door: string, { cpuSeconds, memoryMb, code, stderr }: ProcessCost): string =>
  `${name}, ${door}: ${cpuSeconds.toFixed(1)} s, ${memoryMb.toFixed(0)} MB, exit ${code}: ${stderr.trim().split('\n').slice(-2).join(' ').slice(0, 160)}`; // biome-ignore format: one line

/** Graphs that cost nothing, and are served or refused for what they answer. */
const HARMLESS = ['ConstantOfShape of a negative size', 'If in If, 12 deep, both ways', 'a chain that our own tracer could follow twice at each step']; // biome-ignore format: one line

for (const [name, build] of Object.entries(HOSTILE).filter((_, i, all) => i % Math.ceil(all.length / GRAPHS) === 0)) {
  checkTest(`${name} is refused within bounds`, async () => {
    const at = registryWith(build());
    const costs: string[] = [];
    // One command is enough for a graph; campaigns try all.
    for (const [door, args] of TIER === 'campaigns' ? DOORS : DOORS.slice(0, 1)) {
      const cost = await costOf([process.execPath, MAIN, ...args(at)]);
      costs.push(told(name, door, cost));
      expect.soft(cost.cpuSeconds, costs.at(-1)).toBeLessThan(MOST_CPU_SECONDS);
      expect.soft(cost.memoryMb, costs.at(-1)).toBeLessThan(MOST_MB);
      if (!HARMLESS.includes(name)) expect.soft(cost.code, costs.at(-1)).toBe(1);
    }
  });
}

campaignTest('a Loop without an end does not outlive SIGTERM by five seconds', async () => {
  const at = registryWith(HOSTILE['a Loop without an end']!());
  for (const [door, args] of TIER === 'campaigns' ? DOORS : DOORS.slice(1, 2)) {
    const cost = await costOf([process.execPath, MAIN, ...args(at)], 3);
    expect.soft(cost.stopSeconds, told('stopped', door, cost)).toBeLessThan(5);
  }
});
