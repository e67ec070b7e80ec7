// The speed table of the README, from the measurements behind docs/benchmarks.md.
import { readFileSync } from 'node:fs';

interface Contender {
  name: string;
  seconds: { median: number };
  cpuSeconds: { median: number };
  peakBytes: { median: number };
}
interface Benchmarks {
  score: {
    rows: number;
    models: { model: string; rows: number; odd: boolean; large: boolean; contenders: Contender[] }[];
  };
  explain: { models: { model: string; results: { name: string; rowsPerCpuSecond: number | null }[] }[] };
}

const MODEL = 'bench-lightgbm';
/** The strongest peers first. */
const PEERS = ['polars + lleaves', 'polars + onnxruntime', 'pandas + onnxruntime', 'polars + LightGBM'];
const EXPLAINERS = ['woodelf-explainer, interventional', 'LightGBM pred_contrib', 'shap.TreeExplainer, interventional'];

const ratio = (a: number, b: number): string => `${(a / b).toFixed(1)} ×`;

/** Sluice in absolute numbers, peers as multiples of its time, CPU time and memory. */
export function speedTable(): string {
  const { score, explain } = JSON.parse(readFileSync('docs/benchmarks.json', 'utf8')) as Benchmarks;
  const { contenders } = score.models.find((m) => m.model === MODEL && !m.odd && !m.large)!;
  const of = (name: string): Contender => contenders.find((c) => c.name === name)!;
  const own = of('sluice');
  const rows = PEERS.map(of).map(
    (c) =>
      `| ${c.name} | ${ratio(c.seconds.median, own.seconds.median)} | ${ratio(c.cpuSeconds.median, own.cpuSeconds.median)} | ${ratio(c.peakBytes.median, own.peakBytes.median)} |`,
  );
  const { results } = explain.models.find((m) => m.model === MODEL)!;
  const rate = (name: string): number => results.find((r) => r.name.startsWith(name))!.rowsPerCpuSecond!;
  const alone = rate('sluice, the explainer alone');
  const effects = EXPLAINERS.map((name) => `${name.split(',')[0]} ${ratio(alone, rate(name))}`);
  return [
    '| | wall time | CPU time | memory |',
    '| --- | --- | --- | --- |',
    `| **Sluice** | **${own.seconds.median.toFixed(2)} s** | **${own.cpuSeconds.median.toFixed(2)} s** | **${Math.round(own.peakBytes.median / 1e6)} MB** |`,
    ...rows,
    '',
    `CPU time of exact effects per row, compared with Sluice: ${effects.join(', ')}.`,
  ].join('\n');
}
