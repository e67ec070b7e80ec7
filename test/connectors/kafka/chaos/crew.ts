// The processes of a group under test, by name: started, killed, stopped and dismissed.
import { type ChildProcess, fork } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import type { KafkaCounters } from '../../../../src/connectors/kafka/observer.ts';
import type { WorkerSettings } from './worker.ts';

export interface CrewOptions {
  settings: WorkerSettings;
  /** The processor with an echo, or `sluice run` with a model. */
  member: 'echo' | 'pipeline';
  /** Each member is static under its name. */
  named?: boolean;
  /** For the files of pipelines. */
  folder: string;
}

/** What ends a member that does not end by itself, ms after it was told. */
const DISMISS_MS = 20_000;

/** Who dies by itself is replaced. */
export class Crew {
  /** Members that ended without being told to. */
  exits = 0;
  /** Longest time a member took to end after SIGTERM, ms. */
  slowestEndMs = 0;
  readonly #clients = new Map<string, string>();
  readonly #options: CrewOptions;
  readonly #workers = new Map<string, ChildProcess>();
  readonly #reports = new Map<number, KafkaCounters>();

  constructor(options: CrewOptions) {
    this.#options = options;
  }

  /** @param client which Kafka client it uses; default: that of the last one of this name, else of this process */
  hire(name: string, client = this.clientOf(name)): void {
    this.#clients.set(name, client);
    const worker = this.#begin(name, client);
    this.#workers.set(name, worker);
    worker.on('message', (counters) => this.#reports.set(worker.pid!, counters as KafkaCounters));
    worker.once('exit', () => {
      if (this.#workers.get(name) !== worker) return;
      this.exits++;
      this.hire(name);
    });
  }

  clientOf(name: string): string {
    return this.#clients.get(name) ?? process.env.SLUICE_KAFKA_CLIENT ?? '';
  }

  #begin(name: string, client: string): ChildProcess {
    const { settings, member, named, folder } = this.#options;
    const env = { ...process.env, SLUICE_KAFKA_CLIENT: client };
    const instanceId = named ? name : null;
    const own = { ...settings, instanceId, connection: { ...settings.connection, clientId: name } };
    if (member === 'echo') return fork(path.join(import.meta.dirname, 'worker.ts'), [JSON.stringify(own)], { env });
    const file = pipelineFile(path.join(folder, `${name}.yaml`), own);
    const main = path.resolve(import.meta.dirname, '../../../../src/main.ts');
    return fork(main, ['run', file], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  }

  /** Whether every member has told its counters, which it does once it has found the broker. */
  get hasStarted(): boolean {
    return [...this.#workers.values()].every(({ pid }) => this.#reports.has(pid!));
  }

  signal(name: string, signal: NodeJS.Signals): void {
    this.#workers.get(name)?.kill(signal);
  }

  kill(name: string): void {
    const worker = this.#workers.get(name);
    this.#workers.delete(name);
    worker?.kill('SIGKILL');
  }

  async dismiss(name: string): Promise<void> {
    const worker = this.#workers.get(name);
    this.#workers.delete(name);
    if (!worker || worker.exitCode !== null) return;
    const gone = new Promise((resolve) => worker.once('exit', resolve));
    const told = performance.now();
    worker.kill('SIGTERM');
    const timer = setTimeout(() => worker.kill('SIGKILL'), DISMISS_MS);
    await gone;
    clearTimeout(timer);
    this.slowestEndMs = Math.max(this.slowestEndMs, Math.round(performance.now() - told));
  }

  async dismissAll(): Promise<void> {
    await Promise.all([...this.#workers.keys()].map((name) => this.dismiss(name)));
  }

  counters(): Partial<KafkaCounters> {
    const sum: Partial<KafkaCounters> = {};
    for (const report of this.#reports.values()) {
      for (const [name, value] of Object.entries(report) as [keyof KafkaCounters, number][]) {
        sum[name] = (sum[name] ?? 0) + value;
      }
    }
    return sum;
  }
}

/** A pipeline that does what the echo does, with a model in between. */
export function pipelineFile(file: string, s: WorkerSettings): string {
  const { brokers, clientId, tls, sasl } = s.connection;
  const login = {
    client_id: clientId,
    ...(s.instanceId ? { instance_id: s.instanceId } : {}),
    ...(typeof tls === 'object' ? { tls: { ca_file: tls.caFile, server_name: tls.serverName } } : {}),
    ...(sasl ? { sasl } : {}),
  };
  writeFileSync(
    file,
    `model: credit-default
source: { type: kafka, topic: ${s.topic}, group: ${s.group} }
score: { batch_rows: ${s.batchRows}, batch_wait_ms: 10, workers: 1, passthrough: [id, p, n] }
sink: { type: kafka, topic: ${s.outputTopic} }
delivery: ${s.delivery}
transaction_rows: ${s.transactionRows}
transaction_timeout_ms: ${s.transactionTimeoutMs}
kafka: ${JSON.stringify({ brokers, session_timeout_ms: s.sessionTimeoutMs, ...login })}
`,
  );
  return file;
}
