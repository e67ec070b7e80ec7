// Gets the servers of the registry tests ready once: s3proxy and Apicurio by Maven, MLflow in a Python environment of its own.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { pythonWith } from '../python-environment.ts';
import { missingTools } from '../tools.ts';

const run = promisify(execFile);
const HERE = import.meta.dirname;

/** `null` and the folder, or what is missing on this machine. */
export type Installed = { missing: null; folder: string } | { missing: string };

/** Jars of s3proxy, a minute and 100 MB the first time. */
export async function installS3(): Promise<Installed> {
  const pom = path.join(HERE, 'pom.xml');
  const folder = home('s3proxy', pom);
  const there = existsSync(folder);
  const missing = there ? missingTools('Java 17 or newer') : missingTools('Java 17 or newer', 'Maven');
  if (missing !== null) return { missing };
  if (there) return { missing: null, folder };
  const making = mkdtempSync(`${folder}-`);
  try {
    const goal = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${making}/lib`];
    await run('mvn', ['-q', '-B', '-ntp', '-f', pom, ...goal]);
    writeFileSync(path.join(making, 'logback.xml'), '<configuration><root level="OFF"/></configuration>\n');
    renameSync(making, folder);
  } catch {
    rmSync(making, { recursive: true, force: true });
    // Another test process may have been faster.
    if (!existsSync(folder)) return { missing: 'a network, to fetch s3proxy with Maven once' };
  }
  return { missing: null, folder };
}

/** Built by whoever wants it tested: that takes a hundred seconds of a core. */
export async function installVersitygw(): Promise<Installed> {
  const missing = missingTools('versitygw');
  return missing === null ? { missing, folder: '' } : { missing };
}

/** Azurite, the emulator of Azure Blob Storage: half a minute and 190 MB the first time. */
export async function installAzurite(): Promise<Installed> {
  const wanted = path.join(HERE, 'azurite.json');
  const folder = home('azurite', wanted);
  if (existsSync(folder)) return { missing: null, folder };
  const making = mkdtempSync(`${folder}-`);
  try {
    copyFileSync(wanted, path.join(making, 'package.json'));
    await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: making });
    renameSync(making, folder);
  } catch {
    rmSync(making, { recursive: true, force: true });
    // Another test process may have been faster.
    if (!existsSync(folder)) return { missing: 'a network, to fetch Azurite with npm once' };
  }
  return { missing: null, folder };
}

/** The emulator of Google Cloud Storage. `go install` takes a minute of a core, so it is left to the machine. */
export async function installFakeGcs(): Promise<Installed> {
  const missing = missingTools('fake-gcs-server');
  return missing === null ? { missing, folder: '' } : { missing };
}

/** A Python environment with MLflow, 850 MB. */
export const installMlflow = (): Promise<Installed> => installPython(path.join(HERE, 'requirements.txt'));

/** One with model_signing of the OpenSSF, 120 MB. */
export const installModelSigning = (): Promise<Installed> =>
  installPython(path.join(HERE, '../model-signing/requirements.txt'));

async function installPython(requirements: string): Promise<Installed> {
  const found = await pythonWith(requirements);
  return 'missing' in found ? found : { missing: null, folder: path.resolve(found.python, '../..') };
}

/** Apicurio, which speaks the API of schema registries, and the Java it needs: a minute and 300 MB the first time. */
export async function installApicurio(): Promise<Installed> {
  const wanted = path.join(HERE, 'apicurio.json');
  const folder = home('apicurio', wanted);
  if (existsSync(folder)) return { missing: null, folder };
  const missing = missingTools('Java 17 or newer', 'Maven', 'Python 3 with venv');
  if (missing !== null) return { missing };
  const { artifact, java } = JSON.parse(readFileSync(wanted, 'utf8')) as { artifact: string; java: string };
  const making = mkdtempSync(`${folder}-`);
  try {
    await run('mvn', ['-q', '-B', '-ntp', 'dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${making}`]);
    const [archive] = readdirSync(making);
    await run('tar', ['xzf', path.join(making, archive!), '-C', making]);
    rmSync(path.join(making, archive!));
    // It wants a newer Java than Debian has; the package for Python holds one.
    await run('python3', ['-m', 'venv', path.join(making, 'venv')]);
    await run(path.join(making, 'venv', 'bin', 'pip'), ['install', '-q', '--no-compile', java]);
    renameSync(making, folder);
  } catch {
    rmSync(making, { recursive: true, force: true });
    // Another test process may have been faster.
    if (!existsSync(folder)) return { missing: 'a network, to fetch Apicurio with Maven and pip once' };
  }
  return { missing: null, folder };
}

/** Named after what is installed, so that another version gets another folder. */
function home(name: string, file: string): string {
  const hash = createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 12);
  const folder = path.resolve(HERE, '../../../.cache', name);
  mkdirSync(folder, { recursive: true });
  return path.join(folder, hash);
}
