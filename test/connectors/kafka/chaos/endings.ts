// `npm run chaos:endings -- --times 100`: `sluice run` over TLS with a login, told to end in the midst of its work. Exits 1 when one takes
// longer than 2 s, ends with an error, or leaves a record without its one answer.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { KafkaConnection } from '../../../../src/connectors/kafka/client/connection.ts';
import { someApplications } from '../../../support/kafka/applications.ts';
import { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { SecuredListener } from '../../../support/kafka/secured.ts';
import { committed } from '../../../support/kafka/topics.ts';
import { until } from '../../../support/until.ts';
import { pipelineFile } from './crew.ts';
import { feed } from './feed.ts';
import { countAnswers, type Tally } from './tally.ts';

export interface EndingReport extends Tally {
  times: number;
  records: number;
  /** From SIGTERM to the end of the process, ms. */
  tookMs: number[];
  /** Ends with another code than 0, or by a signal. */
  failed: number;
}

/** Records a second. */
const RATE = 400;
/** What one start, some work and the end take, ms: records are fed for as long. */
const MEAN_MS = 3_500;

export interface EndingOptions {
  times: number;
  /** Which Kafka client is used; default: the one of this process. */
  client?: string;
  /** Default: exactly_once. */
  delivery?: 'exactly_once' | 'at_least_once';
  log?: (line: string) => void;
}

/** @param connection to the listener that members use */
export async function runEndings(
  cluster: KafkaCluster,
  connection: KafkaConnection,
  { times, client, delivery = 'exactly_once', log = () => {} }: EndingOptions,
): Promise<EndingReport> {
  const name = `endings-${crypto.randomUUID().slice(0, 8)}`;
  const [input, output] = [`${name}-in`, `${name}-out`];
  for (const topic of [input, output]) await cluster.createTopic(topic, 4);
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-endings-'));
  const settings = {
    connection,
    topic: input,
    group: name,
    outputTopic: output,
    deadLetterTopic: null,
    delivery,
    sessionTimeoutMs: 30_000,
    batchRows: 50,
    transactionRows: 50,
    transactionTimeoutMs: 10_000,
    workMs: 0,
  };
  const file = pipelineFile(path.join(folder, 'endings.yaml'), settings);
  const begin = () => {
    const main = path.resolve(import.meta.dirname, '../../../../src/main.ts');
    return spawn(process.execPath, [main, 'run', file], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, ...(client ? { SLUICE_KAFKA_CLIENT: client } : {}) },
    });
  };
  const records = times * MEAN_MS * (RATE / 1_000);
  const fed = feed(cluster, input, someApplications(), records, times * MEAN_MS, () => 4);
  fed.catch(() => {});
  const read = () => committed(cluster, name, input).catch(() => 0);
  const tookMs: number[] = [];
  let failed = 0;
  for (let n = 0; n < times; n++) {
    const before = await read();
    const child = begin();
    const ended = once(child, 'exit');
    await until(async () => child.exitCode !== null || (await read()) > before, 'it works');
    await sleep(Math.random() * 500);
    const told = performance.now();
    child.kill('SIGTERM');
    const [code] = await ended;
    tookMs.push(Math.round(performance.now() - told));
    if (code !== 0) failed++;
    log(`${n + 1}/${times} ended with ${code} after ${tookMs.at(-1)} ms`);
  }
  await fed;
  const last = begin();
  await until(async () => (await read()) >= records, 'every record is answered');
  last.kill('SIGTERM');
  await once(last, 'exit');
  rmSync(folder, { recursive: true, force: true });
  return { ...(await countAnswers(cluster, input, output, records)), times, records, tookMs, failed };
}

const MAX_MS = 2_000;

if (import.meta.main) {
  const { values } = parseArgs({ options: { times: { type: 'string', default: '100' } } });
  const listener = await SecuredListener.open();
  await using cluster = await KafkaCluster.start({ settings: listener.settings });
  const connection = await listener.connection(cluster);
  const report = await runEndings(cluster, connection, {
    times: Number(values.times),
    log: (line) => console.error(line),
  });
  console.log(JSON.stringify(report));
  const { lost, doubled, disordered, failed, tookMs } = report;
  if (lost + doubled + disordered + failed > 0 || Math.max(...tookMs) > MAX_MS) process.exitCode = 1;
}
