// `sluice run` of a topic as a process of its own, with its port for metrics: what drills of alerts watch.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Message } from 'kafkajs';
import { copyBundled } from '../bundled-models.ts';
import { MAIN } from '../cli.ts';
import { freePorts } from '../ports.ts';
import type { ScrapeTarget } from '../prometheus.ts';
import { someApplications } from './applications.ts';
import type { KafkaCluster } from './cluster.ts';

export interface WatchedPipelineOptions {
  /** Changes the pipeline file. */
  file?: (yaml: string) => string;
  /** Of the output topic. */
  outputSettings?: Record<string, string>;
  /** Model reference; default: the bundled one. */
  model?: string;
}

/** `await using` kills it. */
export class WatchedPipeline implements AsyncDisposable {
  readonly name: string;
  readonly input: string;
  readonly output: string;
  readonly folder = mkdtempSync(path.join(tmpdir(), 'sluice-pipeline-'));
  /** A copy of the bundled model. */
  readonly registry = path.join(this.folder, 'registry');
  words = '';
  readonly #port: number;
  readonly #cluster: KafkaCluster;
  #child: ChildProcess | null = null;
  #gone: Promise<unknown> = Promise.resolve();
  #sent = 0;

  private constructor(cluster: KafkaCluster, name: string, port: number) {
    this.#cluster = cluster;
    this.name = name;
    this.input = `${name}-in`;
    this.output = `${name}-out`;
    this.#port = port;
    copyBundled(this.registry);
  }

  static async start(
    cluster: KafkaCluster,
    name: string,
    { file = (yaml) => yaml, outputSettings = {}, model = 'credit-default' }: WatchedPipelineOptions = {},
  ): Promise<WatchedPipeline> {
    const [port] = await freePorts(1);
    const pipeline = new WatchedPipeline(cluster, name, port!);
    await cluster.createTopic(pipeline.input, 2);
    await cluster.createTopic(pipeline.output, 2, outputSettings);
    await cluster.createTopic(`${name}-dlq`, 1);
    const yaml = `model: ${model}
source: { type: kafka, topic: ${pipeline.input}, group: ${name} }
score: { batch_wait_ms: 10, workers: 1 }
sink: { type: kafka, topic: ${pipeline.output} }
dead_letter: { type: kafka, topic: ${name}-dlq }
kafka: { brokers: ["${cluster.brokers.join('","')}"], session_timeout_ms: 6000 }
`;
    writeFileSync(path.join(pipeline.folder, `${name}.yaml`), file(yaml));
    pipeline.spawn();
    return pipeline;
  }

  get targets(): ScrapeTarget[] {
    return [
      { job: 'sluice-pipelines', port: this.#port },
      { job: 'sluice-pipelines-columns', port: this.#port, path: '/metrics/columns' },
    ];
  }

  /** Starts the process; after it was ended, again. */
  spawn(): void {
    const file = path.join(this.folder, `${this.name}.yaml`);
    const flags = ['--metrics-port', String(this.#port), '--registry', this.registry, '--stop-ms', '5000'];
    const child = spawn(process.execPath, [MAIN, 'run', file, ...flags], {
      cwd: this.folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.words += text;
    });
    this.#gone = new Promise((resolve) => child.once('exit', resolve));
    this.#child = child;
  }

  /** Sends applications; `broken` of them cannot be scored, `extra` goes along with each. */
  async send(count: number, { broken = 0, extra = {} }: { broken?: number; extra?: object } = {}): Promise<void> {
    const producer = this.#cluster.client().producer({ retry: { retries: 1 } });
    await producer.connect();
    try {
      const messages = Array.from({ length: count }, (_, i): Message => {
        const amount = i < broken ? { amount: 'a lot' } : {};
        const application = APPLICATIONS[this.#sent % APPLICATIONS.length];
        return { key: String(this.#sent++), value: JSON.stringify({ ...application, ...amount, ...extra }) };
      });
      await producer.send({ topic: this.input, messages });
    } finally {
      await producer.disconnect();
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    this.kill(signal);
    await this.#gone;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const APPLICATIONS = someApplications();
