// `sluice run` from standard input as a process of its own, with its port for metrics.
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Run, type Started, start } from './cli.ts';
import { freePorts } from './ports.ts';
import type { ScrapeTarget } from './prometheus.ts';

/** `await using` kills it. */
export class WatchedRun implements AsyncDisposable {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'sluice-run-'));
  readonly port: number;
  readonly #started: Started;

  private constructor(port: number) {
    this.port = port;
    const pipeline = path.join(this.folder, 'nightly.yaml');
    writeFileSync(
      pipeline,
      `model: credit-default\nsource: { type: stdio, format: csv }\nsink: { type: file, path: ${this.folder}/out.csv }\n`,
    );
    const metrics = ['--metrics-port', String(port), '--metrics-file', this.#metricsFile];
    this.#started = start(['run', pipeline, ...metrics, '--registry', path.resolve('src/bundled')], { stdin: 'open' });
  }

  /** `input`: the head of the CSV, so that the run opens its workers. */
  static async start(input: Buffer): Promise<WatchedRun> {
    const [port] = await freePorts(1);
    const run = new WatchedRun(port!);
    await run.write(input);
    return run;
  }

  get targets(): ScrapeTarget[] {
    return [
      { job: 'sluice-pipelines', port: this.port },
      { job: 'sluice-pipelines-columns', port: this.port, path: '/metrics/columns' },
    ];
  }

  get child(): ChildProcess {
    return this.#started.child;
  }

  get #metricsFile(): string {
    return path.join(this.folder, 'nightly.prom');
  }

  write(rows: Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      this.child.stdin!.write(rows, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** A page of the metrics port; '' while it does not answer with status 200. */
  async page(name: '/metrics' | '/metrics/columns' | '/readyz'): Promise<string> {
    const response = await fetch(`http://127.0.0.1:${this.port}${name}`).catch(() => null);
    return response?.ok ? response.text() : '';
  }

  /** Ends the input and waits for the process. Returns the metrics file. */
  async finish(): Promise<{ run: Run; metricsFile: string }> {
    this.child.stdin!.end();
    const run = await this.#started.done;
    return { run, metricsFile: readFileSync(this.#metricsFile, 'utf8') };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill('SIGKILL');
    await this.#started.done;
    rmSync(this.folder, { recursive: true, force: true });
  }
}
