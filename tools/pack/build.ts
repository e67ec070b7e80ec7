// `npm run build`: what the image and packages run. Compiles `src`, joins what is loaded together and copies what the program reads.
//
//   node tools/pack/build.ts [FOLDER]
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import path from 'node:path';
import { joinModules } from './join-modules.ts';

const ROOT = path.resolve(import.meta.dirname, '..', '..');

/** `root`: a checkout. @throws Error where it does not compile; `tsc` has told why */
export async function build(root: string, into: string): Promise<void> {
  rmSync(into, { recursive: true, force: true });
  const run = (...args: string[]) => execFileSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
  run(path.join('node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json', '--outDir', into);
  await joinModules(into);
  run(path.join('src', 'bundled', 'copy.ts'), into);
}

if (import.meta.main) await build(ROOT, path.resolve(process.argv[2] ?? path.join(ROOT, 'dist')));
