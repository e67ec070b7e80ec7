// Where and when numbers were measured: they mean little without.
import { readFileSync } from 'node:fs';
import { cpus, loadavg, platform, release, totalmem } from 'node:os';
import path from 'node:path';
import { ROOT } from './prepare.ts';
import { run } from './run.ts';

export interface Machine {
  date: string;
  commit: string;
  cpu: string;
  cores: number;
  memoryBytes: number;
  system: string;
  /** Load average of 1, 5 and 15 minutes when the part had ended. */
  load: number[];
  versions: Record<string, string>;
}

const SHOWN = [
  'duckdb',
  'lightgbm',
  'numpy',
  'onnxruntime',
  'pandas',
  'polars',
  'pyarrow',
  'scikit-learn',
  'shap',
  'treelite',
  'woodelf_explainer',
  'xgboost',
];

/** The checkout that was built; asked for when the build is made, not when a part has ended hours later. */
export async function commitOf(): Promise<string> {
  const git = (...args: string[]) => run({ args: ['git', ...args], cwd: ROOT }).catch(() => '');
  const changed = (await git('status', '--porcelain', '--untracked-files=no', '--', 'src', 'bench')) !== '';
  return (await git('rev-parse', '--short', 'HEAD')).trim() + (changed ? ' with changes' : '');
}

export async function machine(python: string | null, commit: string): Promise<Machine> {
  const npm = (name: string): string =>
    (JSON.parse(readFileSync(path.join(ROOT, 'node_modules', name, 'package.json'), 'utf8')) as { version: string })
      .version;
  const versions: Record<string, string> = {
    node: process.versions.node,
    'onnxruntime-node': npm('onnxruntime-node'),
    'csv-parse': npm('csv-parse'),
  };
  if (python !== null) {
    versions.python = (await run({ args: [python, '-c', 'import platform; print(platform.python_version())'] })).trim();
    const frozen = await run({
      args: [python, '-m', 'pip', 'list', '--format', 'freeze', '--disable-pip-version-check'],
    });
    for (const line of frozen.split('\n')) {
      const [name, version] = line.split('==');
      if (SHOWN.includes(name!)) versions[name!] = version!.trim();
    }
  }
  return {
    date: new Date().toISOString().slice(0, 10),
    commit,
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryBytes: totalmem(),
    system: `${platform()} ${release()}`,
    load: loadavg().map((l) => Math.round(l * 100) / 100),
    versions,
  };
}
