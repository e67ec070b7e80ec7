// Another commit of this repository as a program beside ours: in a checkout of its own, built by its own compiler settings.
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build, type Program, ROOT } from './prepare.ts';
import { run } from './run.ts';

export interface Base {
  program: Program;
  commit: string;
}

/** Gives `work` the built base; its checkout is gone afterwards. @throws Error when git does not know `base` */
export async function withBase<T>(base: string, work: (built: Base) => Promise<T>): Promise<T> {
  const parent = mkdtempSync(path.join(tmpdir(), 'sluice-base-'));
  const tree = path.join(parent, 'tree');
  const commit = (await run({ args: ['git', 'rev-parse', '--short', `${base}^{commit}`], cwd: ROOT })).trim();
  await run({ args: ['git', 'worktree', 'add', '--detach', tree, commit], cwd: ROOT });
  try {
    await dependencies(tree);
    return await work({ program: await build(tree), commit });
  } finally {
    await run({ args: ['git', 'worktree', 'remove', '--force', tree], cwd: ROOT });
    rmSync(parent, { recursive: true, force: true });
  }
}

/** The same dependencies are shared; others are installed. */
async function dependencies(tree: string): Promise<void> {
  if (existsSync(path.join(tree, 'package-lock.json')) && installed(tree) === installed(ROOT)) {
    symlinkSync(path.join(ROOT, 'node_modules'), path.join(tree, 'node_modules'));
  } else await run({ args: ['npm', 'ci'], cwd: tree }, true);
}

/** What a lock file installs: everything but the words about the project itself, such as where its command lies. */
function installed(root: string): string {
  const lock = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dependencies?: object; devDependencies?: object }>;
  };
  const { '': own, ...others } = lock.packages;
  return JSON.stringify([own?.dependencies, own?.devDependencies, others]);
}
