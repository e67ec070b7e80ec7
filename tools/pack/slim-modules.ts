// What an installation needs of the packages it depends on: the program and licences, for one platform. ONNX Runtime brings its
// binaries for five, most packages bring types, source maps, tests and pages that nothing loads.
//
//   node tools/pack/slim-modules.ts NODE_MODULES [PLATFORM]
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { arch, platform } from 'node:os';
import path from 'node:path';

/** Those that ONNX Runtime has binaries for; on Linux with glibc. */
export const PLATFORMS = ['linux-x64', 'linux-arm64', 'darwin-arm64', 'win32-x64', 'win32-arm64'] as const;
export type Platform = (typeof PLATFORMS)[number];

/** @throws Error a platform that ONNX Runtime has no binaries for */
export function platformOf(word: string = `${platform()}-${arch()}`): Platform {
  const found = PLATFORMS.find((p) => p === word);
  if (found) return found;
  throw new Error(`there is no ONNX Runtime for ${word}; the platforms are ${PLATFORMS.join(', ')}`);
}

/** Only the install script of onnxruntime-node uses them, which is not run. */
const OF_THE_INSTALL_SCRIPT = ['global-agent', 'adm-zip'];
/** Beside a package.json: what a publisher left in. A folder of such a name further down may be code. */
const LEFT_IN = ['test', 'tests', 'docs', 'example', 'examples', 'benchmark', 'benchmarks', '.github'];
const READ_BY_PEOPLE = /\.(?:map|ts|mts|cts|md|markdown|yml|tsbuildinfo)$/i;
/** Which have to go along with the program. */
const LICENCE = /^(?:licen[cs]e|notice|copying)/i;

/** Takes out of `modules`, a node_modules folder, what `of` does not need at run time. Install scripts are taken out, too. */
export function slimModules(modules: string, of: Platform): void {
  for (const name of OF_THE_INSTALL_SCRIPT) rmSync(path.join(modules, name), { recursive: true, force: true });
  rmSync(path.join(modules, '.bin'), { recursive: true, force: true });
  rmSync(path.join(modules, '.package-lock.json'), { force: true });
  slimRuntime(path.join(modules, 'onnxruntime-node'), of);
  for (const folder of packagesIn(modules)) slimPackage(folder, modules);
}

function slimRuntime(folder: string, of: Platform): void {
  const [os, cpu] = of.split('-') as [string, string];
  const binaries = path.join(folder, 'bin', 'napi-v6');
  for (const there of readdirSync(binaries)) {
    if (there !== os) rmSync(path.join(binaries, there), { recursive: true });
  }
  for (const there of readdirSync(path.join(binaries, os))) {
    if (there !== cpu) rmSync(path.join(binaries, os, there), { recursive: true });
  }
  rmSync(path.join(folder, 'script'), { recursive: true, force: true });
  // The same library under the name that nothing links to.
  rmSync(path.join(binaries, os, cpu, 'libonnxruntime.1.30.0.dylib'), { force: true });
}

/** Folders of packages, also of those inside others. */
export function packagesIn(modules: string): string[] {
  return readdirSync(modules).flatMap((name) => {
    const folder = path.join(modules, name);
    if (!lstatSync(folder).isDirectory()) return [];
    if (name.startsWith('@')) return packagesIn(folder);
    const inner = path.join(folder, 'node_modules');
    return [folder, ...(existsSync(inner) ? packagesIn(inner) : [])];
  });
}

function slimPackage(folder: string, modules: string): void {
  for (const name of LEFT_IN) rmSync(path.join(folder, name), { recursive: true, force: true });
  for (const file of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const inPackage = !path.relative(folder, file.parentPath).split(path.sep).includes('node_modules');
    if (!inPackage || !file.isFile() || LICENCE.test(file.name)) continue;
    if (READ_BY_PEOPLE.test(file.name)) rmSync(path.join(file.parentPath, file.name));
  }
  const file = path.join(folder, 'package.json');
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as PackageFile;
  const there = (name: string) =>
    existsSync(path.join(modules, name)) || existsSync(path.join(folder, 'node_modules', name));
  delete manifest.scripts;
  delete manifest.devDependencies;
  // Binaries of other platforms: an installer would look for them, and wait where there is no network.
  manifest.optionalDependencies = only(manifest.optionalDependencies, there);
  for (const name of manifest.name === 'onnxruntime-node' ? OF_THE_INSTALL_SCRIPT : []) {
    delete manifest.dependencies?.[name];
  }
  writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`);
}

interface PackageFile {
  name: string;
  scripts?: Record<string, string>;
  devDependencies?: Record<string, string>;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

const only = (wanted: Record<string, string> = {}, there: (name: string) => boolean): Record<string, string> =>
  Object.fromEntries(Object.entries(wanted).filter(([name]) => there(name)));

if (import.meta.main) {
  const [, , modules, word] = process.argv;
  if (modules === undefined) throw new Error('usage: slim-modules.ts NODE_MODULES [PLATFORM]');
  slimModules(modules, platformOf(word));
}
