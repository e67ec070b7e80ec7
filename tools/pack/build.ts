// `npm run build`: what the image and packages run. Compiles `src`, joins what is loaded together and copies what the program reads.
//
//   node tools/pack/build.ts [FOLDER]
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { joinModules } from './join-modules.ts';

const ROOT = path.resolve(import.meta.dirname, '..', '..');

/**
 * `root`: a checkout. Types are checked by `npm run types`, not here: without checks the same output takes a quarter of the time.
 * @throws Error where a file cannot be parsed; `tsc` has printed the reason
 */
export async function build(root: string, into: string): Promise<void> {
  rmSync(into, { recursive: true, force: true });
  const run = (...args: string[]) => execFileSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
  const tsc = path.join('node_modules', 'typescript', 'bin', 'tsc');
  run(tsc, '-p', 'tsconfig.build.json', '--noCheck', '--outDir', into);
  await joinModules(into);
  run(path.join('src', 'bundled', 'copy.ts'), into);
}

if (import.meta.main) await build(ROOT, path.resolve(process.argv[2] ?? path.join(ROOT, 'dist')));
