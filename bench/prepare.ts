// Makes what is measured, once, in .cache/bench: applications, models, the built program, Python environments.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Oddness } from '../src/demo/oddness.ts';
import { folder, run, say, warn } from './run.ts';

export const ROOT = path.resolve(import.meta.dirname, '..');
export const CACHE = path.join(ROOT, '.cache', 'bench');
export const MODELS = path.join(CACHE, 'models');
export const REGISTRY = path.join(CACHE, 'registry');
export const NODE = process.execPath;
export const PEERS = path.join(import.meta.dirname, 'peers.py');

const TRAINING_ROWS = 200_000;
export const SEED = 7;
const TRAINING_SEED = 11;

/** Models that are trained here, and what stands in the tables for them. */
export const TRAINED = {
  'bench-lightgbm': 'LightGBM, 200 trees × 31 leaves',
  'bench-forest': 'random forest (scikit-learn), 500 trees × 255 leaves',
  'bench-logistic': 'logistic regression on one-hot columns (scikit-learn)',
  'bench-xgboost': 'XGBoost, 200 trees × 31 leaves',
  'bench-catboost': 'CatBoost, 200 symmetric trees of depth 6',
} as const;
/** Deeper trees, of which only effects are measured. */
export const DEEP = {
  'bench-lightgbm-depth-6': 'LightGBM, 200 trees × 31 leaves, depth up to 6',
  'bench-lightgbm-depth-15': 'LightGBM, 200 trees × 31 leaves, depth up to 15',
  'bench-lightgbm-255': 'LightGBM, 200 trees × 255 leaves, depth up to 15',
} as const;
/** The version of a model whose background has 10,000 rows instead of 100. */
export const withLargeBackground = (id: keyof typeof DEEP): string => `${id}-background`;
const LARGE_BACKGROUND: keyof typeof DEEP = 'bench-lightgbm-depth-15';
/** A model of a public table of real applications. */
export const GERMAN = 'bench-german';
/** The folder with the files of a model, and with the codes of its categories. */
export const filesOf = (model: string): string => (model === GERMAN ? path.join(MODELS, 'german') : MODELS);
export const BUNDLED = 'credit-default';
export const nameOf = (model: string): string =>
  (TRAINED as Record<string, string>)[model] ??
  (DEEP as Record<string, string>)[model] ??
  (model === GERMAN ? 'German Credit (UCI), 20 columns: LightGBM, 200 trees × 31 leaves' : undefined) ??
  'the bundled model: LightGBM, 180 trees × 31 leaves';

export interface Program {
  /** The command line of the built program. */
  sluice: readonly string[];
  folder: string;
}

/** Builds a checkout: users run JavaScript that is joined, not TypeScript whose types are stripped at every start. */
export async function build(root: string): Promise<Program> {
  const out = folder(root, '.cache', 'bench', 'dist');
  const own = path.join('tools', 'pack', 'build.ts');
  if (existsSync(path.join(root, own))) await run({ args: [NODE, own, out], cwd: root });
  else {
    // A checkout of an earlier release.
    rmSync(out, { recursive: true });
    const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    await run({ args: [NODE, tsc, '-p', 'tsconfig.build.json', '--outDir', out], cwd: root });
    await run({ args: [NODE, 'src/bundled/copy.ts', out], cwd: root });
  }
  return { sluice: [NODE, path.join(out, 'main.js')], folder: root };
}

/** A portfolio, or the training data of the models, which has outcomes. */
export async function applications(
  program: Program,
  rows: number,
  kind: Oddness | 'training' = 'none',
): Promise<string> {
  folder(CACHE);
  const outcome = kind === 'training';
  const name = outcome ? 'training' : kind === 'none' ? 'applications' : `${kind}-applications`;
  const file = path.join(CACHE, `${name}-${rows}.csv`);
  if (existsSync(file)) return file;
  say(`generating ${rows} applications`);
  const seed = String(outcome ? TRAINING_SEED : SEED);
  const partial = `${file}.making.csv`;
  const args = [
    'generate',
    '--oddness',
    outcome ? 'none' : kind,
    '--rows',
    String(rows),
    '--seed',
    seed,
    '-o',
    partial,
  ];
  await run({ args: [...program.sluice, ...args, ...(outcome ? ['--outcome'] : [])] });
  renameSync(partial, file);
  return file;
}

/** The interpreter of an environment with the pinned packages; null, and loudly so, where there is none. */
export async function environment(name: string, requirements: string, purpose: string): Promise<string | null> {
  const python = path.join(CACHE, name, 'bin', 'python');
  const stamp = path.join(CACHE, name, 'installed');
  const wanted = readFileSync(path.join(import.meta.dirname, requirements), 'utf8');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return python;
  if (spawnSync('python3', ['--version']).status !== 0) {
    warn(`no python3: ${purpose} is skipped`);
    return null;
  }
  say(`installing ${wanted.trim().split('\n').join(', ')}`);
  try {
    await run({ args: ['python3', '-m', 'venv', path.join(CACHE, name)] });
    await run({
      args: [python, '-m', 'pip', 'install', '--quiet', '-r', path.join(import.meta.dirname, requirements)],
    });
  } catch (cause) {
    warn(`${purpose} is skipped, its packages cannot be installed: ${(cause as Error).message}`);
    return null;
  }
  writeFileSync(stamp, wanted);
  return python;
}

/** Tells how models are trained: by the section of the script of the peers that begins so. */
function recipeOf(heading: string): string {
  const section = readFileSync(PEERS, 'utf8').split(heading)[1]!.split('# ----')[0]!;
  return createHash('sha256').update(section).digest('hex').slice(0, 16);
}

/** Trains and registers the models of which only effects are measured, where they are not there yet. */
export async function deepModels(program: Program, python: string): Promise<void> {
  const stamp = path.join(MODELS, `deep-${recipeOf('# ---- deep trees')}`);
  if (existsSync(stamp)) return;
  const training = await applications(program, TRAINING_ROWS, 'training');
  say('training the deep models');
  const args = [python, '-W', 'ignore', PEERS, 'train-deep', '--training-data', training, '--folder', MODELS];
  await run({ args }, true);
  for (const id of Object.keys(DEEP)) {
    rmSync(path.join(REGISTRY, id), { recursive: true, force: true });
    await register(program, id, id, training);
  }
  const large = withLargeBackground(LARGE_BACKGROUND);
  rmSync(path.join(REGISTRY, large), { recursive: true, force: true });
  const background = path.join(MODELS, 'background-10000.csv');
  writeFileSync(background, readFileSync(training, 'utf8').split('\n', 10_001).join('\n'));
  await register(program, large, LARGE_BACKGROUND, training, [
    '--background',
    background,
    '--background-rows',
    '10000',
  ]);
  writeFileSync(stamp, '');
}

/** Registers files of `models` under an id, checked against what the library that trained it predicts. */
async function register(
  program: Program,
  id: string,
  files: string,
  training: string,
  more: readonly string[] = [],
): Promise<void> {
  say(`registering ${id}`);
  const file = (name: string) => path.join(filesOf(id), name);
  const what = ['--id', id, '--training-data', training, '--outcome', 'ok', '--encoding', file('codes.json')];
  const expected = ['--expected', file(`${files}.expected.csv`), '--expected-rows', file('sample.csv')];
  const args = ['model', 'add', file(`${files}.onnx`), ...what, ...expected, '--tolerance', '1e-5', ...more];
  await run({ args: [...program.sluice, ...args, '--registry', REGISTRY] });
}

/** Trains and registers what is not there yet, or was trained by an older recipe. */
export async function models(program: Program, python: string): Promise<void> {
  const stamp = path.join(MODELS, `recipe-${recipeOf('# ---- the models ----')}`);
  if (existsSync(stamp)) return;
  rmSync(MODELS, { recursive: true, force: true });
  rmSync(REGISTRY, { recursive: true, force: true });
  const training = await applications(program, TRAINING_ROWS, 'training');
  say('training the models');
  await run(
    { args: [python, '-W', 'ignore', PEERS, 'train', '--training-data', training, '--folder', folder(MODELS)] },
    true,
  );
  for (const id of Object.keys(TRAINED)) await register(program, id, id, training);
  writeFileSync(stamp, '');
}

/** Downloads the public table, and trains and registers its model, once. false: it cannot be downloaded. */
export async function germanModel(program: Program, python: string): Promise<boolean> {
  const stamp = path.join(filesOf(GERMAN), `recipe-${recipeOf('# ---- a public table')}`);
  if (existsSync(stamp)) return true;
  say('downloading the public table');
  try {
    await run({ args: [python, '-W', 'ignore', PEERS, 'german', '--folder', folder(filesOf(GERMAN))] });
  } catch (cause) {
    warn(`the public table is skipped: ${(cause as Error).message}`);
    return false;
  }
  rmSync(path.join(REGISTRY, GERMAN), { recursive: true, force: true });
  await register(program, GERMAN, GERMAN, path.join(filesOf(GERMAN), 'training.csv'));
  writeFileSync(stamp, '');
  return true;
}

/** Applications of the public table, as often as they are needed. */
export async function germanApplications(python: string, rows: number): Promise<string> {
  const file = path.join(CACHE, `german-${rows}.csv`);
  if (existsSync(file)) return file;
  const table = path.join(filesOf(GERMAN), 'sample.csv');
  const partial = `${file}.making`;
  await run({ args: [python, PEERS, 'repeat', '--table', table, '--rows', String(rows), '--output', partial] });
  renameSync(partial, file);
  return file;
}

/** Compiles the trees of LightGBM where they are not yet compiled; false, and loudly so, without a C compiler. */
export async function compiledTrees(compiled: string): Promise<boolean> {
  try {
    for (const model of ['bench-lightgbm', GERMAN]) {
      const files = filesOf(model);
      if (existsSync(path.join(files, `${model}.so`)) || !existsSync(path.join(files, `${model}.txt`))) continue;
      await run({ args: [compiled, '-W', 'ignore', PEERS, 'compile', '--model', model, '--models', files] });
    }
    return true;
  } catch (cause) {
    warn(`the peers with compiled trees are skipped: ${(cause as Error).message}`);
    return false;
  }
}
