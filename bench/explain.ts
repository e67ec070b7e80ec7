// Interpretation: effects of single applications, as rows a CPU second, against the libraries of Python.
import { rmSync } from 'node:fs';
import { loadavg } from 'node:os';
import path from 'node:path';
import { sluice } from './contenders.ts';
import { benchEffects, type EffectPairs } from './effects.ts';
import type { Explained } from './explainer.ts';
import { openModel } from './models.ts';
import { BUNDLED, CACHE, deepModels, MODELS, NODE, nameOf, PEERS, type Program } from './prepare.ts';
import { countLines, head } from './rows.ts';
import { folder, measure, ONE_THREAD, run, say } from './run.ts';

export interface ExplainResult {
  load: number;
  backgroundRows: number;
  models: { model: string; name: string; results: ExplainRow[] }[];
  /** In pairs with woodelf-explainer; empty without Python. */
  effects?: EffectPairs[];
}

export interface ExplainRow {
  name: string;
  what: string;
  rows: number;
  cpuSeconds: number;
  rowsPerCpuSecond: number;
  /** Largest difference of an effect from those of Sluice's explainer; null where another quantity is computed. */
  difference: number | null;
}

export interface ExplainSetting {
  program: Program;
  python: string | null;
  /** The interpreter that has fasttreeshap. */
  fasttreeshap: string | null;
  rounds: number;
  quick: boolean;
  input: string;
  cores: number;
}

/** shap adds up in another order, woodelf in float32, and XGBoost and LightGBM keep leaves that ONNX rounds to float32. */
const TOLERANCE = 1e-4;

const WHAT: Record<string, string> = {
  'woodelf-explainer, interventional':
    'the same effects in single precision: all rows in one call, its preparation included',
  'shap.TreeExplainer, interventional': 'the same effects: the same 100 background rows, log-odds',
  'shap.TreeExplainer, path-dependent': 'another quantity: no background, weights of the training rows at each node',
  'LightGBM pred_contrib': 'path-dependent too, one thread',
  'XGBoost pred_contribs': 'path-dependent too, one thread',
  'shap.TreeExplainer, interactions, path-dependent':
    'the interactions of all pairs of columns; it has them path-dependent only',
};

export async function benchExplain(setting: ExplainSetting): Promise<ExplainResult> {
  const { program, python, fasttreeshap, quick, rounds } = setting;
  if (python !== null) await deepModels(program, python);
  const load = loadavg()[0]!;
  const limit = quick ? 2 : 10;
  const rows = quick ? 5_000 : 50_000;
  const input = await head(setting.input, rows);
  const models: ExplainResult['models'] = [];
  let backgroundRows = 0;
  for (const model of python === null ? [BUNDLED] : ['bench-lightgbm', 'bench-xgboost']) {
    const script = path.join(import.meta.dirname, 'explainer.ts');
    const args = [NODE, script, model, input, String(rows), String(limit)];
    const alone = JSON.parse(await run({ args })) as Explained;
    const results = [
      await wholeRun(program, model, { input, rows, workers: setting.cores }),
      rowOf(alone, 'one thread, floats ready in memory, without reading and writing; its preparation included', null),
    ];
    const { folder: place, manifest } = await openModel(model);
    const background = path.join(place, manifest.explain!.background!);
    backgroundRows = await countLines(background);
    if (python !== null) {
      const asked = ['explain', '--model', model, '--models', MODELS, '--rows', input, '--background', background];
      const text = await run({
        args: [python, '-W', 'ignore', PEERS, ...asked, '--seconds', String(limit)],
        env: ONE_THREAD,
      });
      for (const r of JSON.parse(text.slice(text.indexOf('[{'))) as Explained[]) {
        const same = r.name.endsWith('interventional');
        const difference = same ? distance(alone.effects, r.effects) : null;
        if (difference !== null && !(difference <= TOLERANCE)) {
          throw new Error(`${model}: effects differ from those of ${r.name} by ${difference}`);
        }
        results.push(rowOf(r, WHAT[r.name]!, difference));
      }
    }
    if (fasttreeshap !== null && model === 'bench-lightgbm') {
      const asked = ['fasttreeshap', '--model', model, '--models', MODELS, '--rows', input, '--seconds', String(limit)];
      const text = await run({ args: [fasttreeshap, '-W', 'ignore', PEERS, ...asked], env: ONE_THREAD });
      for (const r of JSON.parse(text.slice(text.indexOf('[{'))) as (Explained & { fromLightGBM: number })[]) {
        const off = `path-dependent too, one thread; at most ${r.fromLightGBM.toExponential(0)} from LightGBM's own`;
        results.push(rowOf(r, r.fromLightGBM <= TOLERANCE ? off : `**not the same numbers**: ${off}`, null));
      }
    }
    for (const r of results)
      say(`${model}  ${r.name}: ${r.rowsPerCpuSecond.toFixed(0)} rows a CPU second (${r.rows} rows)`);
    models.push({ model, name: nameOf(model), results });
  }
  const effects = python === null ? [] : await benchEffects(python, setting.input, rounds, quick);
  return { load, backgroundRows, models, effects };
}

async function wholeRun(
  program: Program,
  model: string,
  { input, rows, workers }: { input: string; rows: number; workers: number },
): Promise<ExplainRow> {
  const output = path.join(folder(CACHE, 'outputs'), 'explained.ndjson');
  const options = ['--workers', String(workers), '--interpretation'];
  const usage = await measure(sluice(program, 'sluice', '', options).command({ model }, input, output));
  rmSync(output);
  const cpuSeconds = usage.userSeconds + usage.systemSeconds;
  const what = `the whole run, CSV to NDJSON with 23 effects and reasons a row, ${workers} workers, start included`;
  return {
    name: '`sluice score --interpretation`',
    what,
    rows,
    cpuSeconds,
    rowsPerCpuSecond: rows / cpuSeconds,
    difference: null,
  };
}

const rowOf = (e: Explained, what: string, difference: number | null): ExplainRow => ({
  name: e.name,
  what,
  rows: e.rows,
  cpuSeconds: e.cpuSeconds,
  rowsPerCpuSecond: e.rows / e.cpuSeconds,
  difference,
});

function distance(a: readonly (readonly number[])[], b: readonly (readonly number[])[]): number {
  let largest = 0;
  const n = Math.min(a.length, b.length);
  if (n === 0) return Number.NaN;
  for (let r = 0; r < n; r++) {
    for (const [i, x] of a[r]!.entries()) largest = Math.max(largest, Math.abs(x - b[r]![i]!));
  }
  return largest;
}
