// Gets the servers of the registry tests ready once: s3proxy by Maven, MLflow in a Python environment of its own.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const HERE = import.meta.dirname;
const MIN_JAVA = 17;

/** `null` and the folder, or what is missing on this machine. */
export type Installed = { missing: null; folder: string } | { missing: string };

/** Jars of s3proxy, a minute and 100 MB the first time. */
export async function installS3(): Promise<Installed> {
  const java = await run('java', ['-version']).catch(() => null);
  const major = Number(/version "(\d+)/.exec(java?.stderr ?? '')?.[1] ?? 0);
  if (major < MIN_JAVA) return { missing: `Java ${MIN_JAVA} or newer (apt-get install openjdk-17-jre-headless)` };
  const pom = path.join(HERE, 'pom.xml');
  const folder = home('s3proxy', pom);
  if (existsSync(folder)) return { missing: null, folder };
  const making = mkdtempSync(`${folder}-`);
  try {
    const goal = ['dependency:copy-dependencies', '-DincludeScope=runtime', `-DoutputDirectory=${making}/lib`];
    await run('mvn', ['-q', '-B', '-ntp', '-f', pom, ...goal]);
    writeFileSync(path.join(making, 'logback.xml'), '<configuration><root level="OFF"/></configuration>\n');
    renameSync(making, folder);
  } catch {
    rmSync(making, { recursive: true, force: true });
    // Another test process may have been faster.
    if (!existsSync(folder)) return { missing: 'Maven (apt-get install maven) and a network, to fetch s3proxy once' };
  }
  return { missing: null, folder };
}

/** A Python environment with MLflow, two minutes and 850 MB the first time. */
export async function installMlflow(): Promise<Installed> {
  const requirements = path.join(HERE, 'requirements.txt');
  const folder = home('mlflow', requirements);
  const ready = path.join(folder, '.ready');
  if (existsSync(ready)) return { missing: null, folder };
  if (!(await run('python3', ['-c', 'import venv, ensurepip']).catch(() => null))) {
    return { missing: 'Python 3.10 or newer with venv (apt-get install python3-venv)' };
  }
  try {
    await run('python3', ['-m', 'venv', '--clear', folder]);
    await run(path.join(folder, 'bin', 'pip'), ['install', '-q', '-r', requirements], { maxBuffer: 1 << 26 });
  } catch {
    return { missing: 'a network, to install MLflow with pip once' };
  }
  writeFileSync(ready, '');
  return { missing: null, folder };
}

/** Named after what is installed, so that another version gets another folder. */
function home(name: string, file: string): string {
  const hash = createHash('sha256').update(readFileSync(file)).digest('hex').slice(0, 12);
  const folder = path.resolve(HERE, '../../../.cache', name);
  mkdirSync(folder, { recursive: true });
  return path.join(folder, hash);
}
