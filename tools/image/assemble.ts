// What the image holds, put together in a folder from a checkout that is built and has no development dependencies any more.
//
//   node tools/image/assemble.ts FOLDER
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { platformOf, slimModules } from '../pack/slim-modules.ts';
import { sbomOf } from './sbom.ts';

/** Types and source maps are for who develops. */
const FOR_DEVELOPERS = /\.(?:d\.ts|map)$/;

export function assembleImage(root: string, target: string): void {
  const of = platformOf();
  const modules = path.join(target, 'node_modules');
  cpSync(path.join(root, 'node_modules'), modules, { recursive: true, verbatimSymlinks: true });
  slimModules(modules, of);
  cpSync(path.join(root, 'dist'), path.join(target, 'dist'), { recursive: true });
  for (const file of readdirSync(path.join(target, 'dist'), { recursive: true, encoding: 'utf8' })) {
    if (FOR_DEVELOPERS.test(file)) rmSync(path.join(target, 'dist', file));
  }
  cpSync(path.join(root, 'package.json'), path.join(target, 'package.json'));
  cpSync(path.join(root, 'tools/image/healthcheck.js'), path.join(target, 'healthcheck.js'));
  const lock = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'));
  writeFileSync(path.join(target, 'sbom.cdx.json'), `${JSON.stringify(sbomOf(target, lock), null, 2)}\n`);
}

if (import.meta.main) {
  const [, , target] = process.argv;
  if (target === undefined) throw new Error('usage: assemble.ts FOLDER');
  assembleImage(path.resolve(import.meta.dirname, '..', '..'), path.resolve(target));
}
