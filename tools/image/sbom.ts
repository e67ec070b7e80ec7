// A bill of materials in CycloneDX 1.6 of what lies in a folder: every package below node_modules with the hash of its tarball by
// package-lock.json, and every native library with its own. It says nothing of the time or of the run that made it, because two
// builds of the same sources have to be the same.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { packagesIn } from '../pack/slim-modules.ts';

interface Lock {
  packages: Readonly<Record<string, { version?: string; integrity?: string }>>;
}

interface PackageFile {
  name: string;
  version: string;
  license?: string;
}

interface Component {
  type: 'application' | 'library' | 'file';
  'bom-ref': string;
  name: string;
  version?: string;
  purl?: string;
  licenses?: { expression: string }[];
  hashes?: { alg: 'SHA-512' | 'SHA-256'; content: string }[];
}

/** Development dependencies whose files the build copies, by their folders. */
const COPIED = { 'swagger-ui-dist': 'dist/doors/http/reference/swagger-ui' };

const NATIVE = /(?:\.node|\.wasm|\.dll|\.dylib|\.so(?:\.\d+)*)$/;

const read = (folder: string): PackageFile => JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));

/** package-url: the scope is percent-encoded. */
const purlOf = ({ name, version }: PackageFile): string => `pkg:npm/${name.replace('@', '%40')}@${version}`;

/** `root` has package.json and node_modules. @throws Error a package that the lock does not name in this version */
export function sbomOf(root: string, lock: Lock): object {
  const own = read(root);
  const placeOf = (folder: string) => path.relative(root, folder).replaceAll(path.sep, '/');
  const packages = [
    ...packagesIn(path.join(root, 'node_modules')).map((folder) => packageComponent(folder, placeOf(folder), lock)),
    ...Object.entries(COPIED).map(([name, folder]) => packageComponent(path.join(root, folder), folder, lock, `node_modules/${name}`)), // biome-ignore format: one line
  ];
  const natives = readdirSync(path.join(root, 'node_modules'), { recursive: true, encoding: 'utf8' })
    .filter((file) => NATIVE.test(file))
    .map((file) => nativeComponent(root, file));
  const byRef = (a: Component, b: Component) => (a['bom-ref'] < b['bom-ref'] ? -1 : 1);
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: describedBy(own, 'application', own.name) },
    components: [...packages, ...natives].sort(byRef),
  };
}

const describedBy = (file: PackageFile, type: 'application' | 'library', ref: string): Component => ({
  type,
  'bom-ref': ref,
  name: file.name,
  version: file.version,
  purl: purlOf(file),
  ...(typeof file.license === 'string' ? { licenses: [{ expression: file.license }] } : {}),
});

/** `key`: of the package in the lock. */
function packageComponent(folder: string, place: string, lock: Lock, key = place): Component {
  const file = read(folder);
  const locked = lock.packages[key];
  if (locked?.version !== file.version || locked.integrity === undefined) {
    throw new Error(`${place} ${file.version} is not what package-lock.json names`);
  }
  const content = Buffer.from(locked.integrity.replace(/^sha512-/, ''), 'base64').toString('hex');
  return { ...describedBy(file, 'library', place), hashes: [{ alg: 'SHA-512', content }] };
}

function nativeComponent(root: string, file: string): Component {
  const place = `node_modules/${file.replaceAll(path.sep, '/')}`;
  const content = createHash('sha256')
    .update(readFileSync(path.join(root, place)))
    .digest('hex');
  return { type: 'file', 'bom-ref': place, name: path.basename(file), hashes: [{ alg: 'SHA-256', content }] };
}
