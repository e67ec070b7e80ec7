// `sluice serve` as a process of its own, as it is deployed: with a certificate, a keys file and a registry that can go wrong.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { generate } from 'selfsigned';
import { SCOPES } from '../../src/config/scopes.ts';
import { changeKeys, hashToken, newToken } from '../../src/doors/http/access/keys-file.ts';
import { copyBundled } from './bundled-models.ts';
import { MAIN } from './cli.ts';
import { PATIENCE_MS } from './patience.ts';
import { freePorts } from './ports.ts';
import type { ScrapeTarget } from './prometheus.ts';

const DAY_MS = 86_400_000;
const HARMLESS_DAYS = 90;

export interface WatchedOptions {
  /** `--set` of these. */
  settings?: readonly string[];
  /** So long its certificate and the key `batch` are valid. */
  certificateDays?: number;
  keyDays?: number;
  /** For the process. */
  env?: Record<string, string>;
}

export interface Answered {
  status: number;
  text: string;
}

/** `await using` kills it. */
export class WatchedService implements AsyncDisposable {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'sluice-watched-'));
  /** A copy of the bundled model, to be damaged. */
  readonly registry = path.join(this.folder, 'registry');
  readonly port: number;
  readonly token: string;
  words = '';
  readonly #agent = new https.Agent({ rejectUnauthorized: false, keepAlive: true });
  #child: ChildProcess | null = null;
  #gone: Promise<unknown> = Promise.resolve();

  private constructor(port: number, token: string) {
    this.port = port;
    this.token = token;
    copyBundled(this.registry);
  }

  static async start(options: WatchedOptions = {}): Promise<WatchedService> {
    const [port] = await freePorts(1);
    const service = new WatchedService(port!, newToken());
    await service.#identify(options);
    service.#spawn(options);
    await service.#alive();
    return service;
  }

  get pid(): number {
    return this.#child!.pid!;
  }

  /** Its two jobs. */
  get targets(): ScrapeTarget[] {
    const { port, token } = this;
    return [
      { job: 'sluice-serve', port, token },
      { job: 'sluice-serve-columns', port, token, path: '/metrics/columns' },
    ];
  }

  request(
    method: string,
    url: string,
    body?: string | Buffer,
    token = this.token,
    headers: Record<string, string> = {},
  ): Promise<Answered> {
    return new Promise((resolve, reject) => {
      const request = https.request(
        {
          host: '127.0.0.1',
          port: this.port,
          method,
          path: url,
          agent: this.#agent,
          headers: { authorization: `API-Key ${token}`, ...headers },
        },
        (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (c: Buffer) => chunks.push(c));
          response.on('error', reject);
          response.on('end', () => resolve({ status: response.statusCode!, text: Buffer.concat(chunks).toString() }));
        },
      );
      request.on('error', reject);
      request.end(body);
    });
  }

  /** Comma-separated applications to a model. */
  predict(csv: string | Buffer, model = 'credit-default', more = ''): Promise<Answered> {
    return this.request('POST', `/api/v1/scoring/predict.csv?modelId=${model}&delimiter=comma${more}`, csv);
  }

  /** A client that goes in the middle of its answer. */
  leave(csv: Buffer): Promise<void> {
    return new Promise((resolve) => {
      const request = https.request({
        host: '127.0.0.1',
        port: this.port,
        method: 'POST',
        path: '/api/v1/scoring/predict.csv?modelId=credit-default&delimiter=comma',
        agent: false,
        rejectUnauthorized: false,
        headers: { authorization: `API-Key ${this.token}` },
      });
      request.on('error', () => resolve());
      request.on('close', () => resolve());
      request.on('response', (response) => response.once('data', () => request.destroy()));
      // The body does not end, so that the answer cannot either.
      request.write(csv);
    });
  }

  kill(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy();
    this.kill('SIGKILL');
    await this.#gone;
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Certificate and keys. */
  async #identify({ certificateDays = HARMLESS_DAYS, keyDays = HARMLESS_DAYS }: WatchedOptions): Promise<void> {
    const made = await generate([{ name: 'commonName', value: 'localhost' }], {
      keyType: 'ec',
      algorithm: 'sha256',
      notBeforeDate: new Date(Date.now() - DAY_MS),
      notAfterDate: new Date(Date.now() + certificateDays * DAY_MS),
    });
    writeFileSync(path.join(this.folder, 'tls.crt'), made.cert);
    writeFileSync(path.join(this.folder, 'tls.key'), made.private);
    await changeKeys(path.join(this.folder, 'keys.yaml'), () => [
      { name: 'prometheus', sha256: hashToken(this.token), scopes: [...SCOPES] },
      {
        name: 'batch',
        sha256: hashToken(newToken()),
        scopes: ['predict'],
        expires: new Date(Date.now() + keyDays * DAY_MS).toISOString(),
      },
    ]);
  }

  #spawn({ settings = [], env = {} }: WatchedOptions): void {
    const at = (name: string) => path.join(this.folder, name);
    mkdirSync(at('spill'));
    const sets = [
      'listen.host=127.0.0.1',
      `tls.certificate=${at('tls.crt')}`,
      `tls.key=${at('tls.key')}`,
      `keys_file=${at('keys.yaml')}`,
      `jobs.folder=${at('jobs')}`,
      `spill.folder=${at('spill')}`,
      'workers=1',
      ...settings,
    ];
    const args = ['serve', '--port', String(this.port), '--registry', this.registry, '--set', ...sets];
    const child = spawn(process.execPath, [MAIN, ...args], {
      cwd: this.folder,
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, ...env },
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.words += text;
    });
    this.#gone = new Promise((resolve) => child.once('exit', resolve));
    this.#child = child;
  }

  async #alive(): Promise<void> {
    for (const end = Date.now() + PATIENCE_MS; ; await sleep(50)) {
      const answer = await this.request('GET', '/livez').catch(() => null);
      if (answer?.status === 200) return;
      if (this.#child?.exitCode !== null || Date.now() > end) throw new Error(`serve did not start:\n${this.words}`);
    }
  }
}
