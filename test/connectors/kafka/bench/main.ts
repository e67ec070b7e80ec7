// `npm run kafka:bench`: the processor with an echo, and a whole pipeline with a light model, against a bare transactional copy of
// the same applications: rate, memory and idle CPU. Each is a process of its own, the bare one with kafkajs as it is published.
import '../../../../src/core/no-telemetry.ts';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { answerTo } from '../../../../src/connectors/kafka/client/records.ts';
import { TransactionalProcessor } from '../../../../src/connectors/kafka/processor.ts';
import { ModelHost } from '../../../../src/engine/model-host.ts';
import { FolderRegistry } from '../../../../src/model/registry/folder.ts';
import { Metrics } from '../../../../src/monitor/metrics.ts';
import { RunAccount } from '../../../../src/runs/account.ts';
import { parsePipeline } from '../../../../src/runs/read-pipeline.ts';
import { startRun } from '../../../../src/runs/start-run.ts';
import { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { fill } from './fill.ts';
import { measure } from './measure.ts';

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '300000' },
    rounds: { type: 'string', default: '2' },
    /** bare, ours, scored or idle. */
    only: { type: 'string' },
    'idle-seconds': { type: 'string', default: '20' },
    /** Set for the processes that are measured. */
    measure: { type: 'string' },
    broker: { type: 'string' },
    topic: { type: 'string' },
    output: { type: 'string' },
  },
});
const records = Number(values.records);
const PARTITIONS = 4;
const input = values.topic ?? '';
const connection = { brokers: [values.broker ?? ''] };

const ours = (output: string) => async (through: () => void) => {
  const processor = await TransactionalProcessor.start({
    connection,
    topic: input,
    group: output,
    outputTopic: output,
    deadLetterTopic: null,
    process: async (batch) => ({ outputs: batch.records.map((r) => answerTo(r, r.value)), rejected: [] }),
    observer: {
      onTransaction: () => {
        if (processor?.counters.records >= records) through();
      },
    },
  });
  if (processor.counters.records >= records) through();
  return async () => {
    const { counters } = processor;
    console.error(`${Math.round(counters.records / counters.transactions)} records a transaction`);
    await processor.stop(5_000);
  };
};

/** A pipeline as `sluice run` starts it, with the logistic model of the tests. */
const scored = (output: string) => async (through: () => void) => {
  const metrics = new Metrics('topic_run');
  const host = new ModelHost({ registry: new FolderRegistry(['test/fixtures/packages']), workers: 2, max: 1 });
  const text = `model: credit-columns
source: { type: kafka, topic: ${input}, group: ${output} }
sink: { type: kafka, topic: ${output} }
kafka: { brokers: ["${values.broker}"] }
`;
  const parsed = await parsePipeline('bench.yaml', text);
  if (!parsed.ok) throw new Error(parsed.problems.map((p) => p.message).join());
  const account = new RunAccount(metrics);
  const registry = host.registry;
  const running = await startRun(parsed.value, {
    name: 'bench',
    registry,
    host: async () => host,
    account,
    metrics,
    beside: [],
    log: () => {},
    tracer: null,
  });
  const timer = setInterval(() => {
    if (running.progress().counts.rows >= records) through();
  }, 20);
  return async () => {
    clearInterval(timer);
    await running.stop(5_000);
    await host.close();
  };
};

/** CPU of a processor that has nothing to do, percent of a core. */
async function idle(output: string): Promise<{ percentOfACore: number }> {
  const processor = await TransactionalProcessor.start({
    connection,
    topic: input,
    group: 'idle',
    outputTopic: output,
    deadLetterTopic: null,
    process: async () => ({ outputs: [], rejected: [] }),
  });
  await sleep(5_000);
  const cpu = process.cpuUsage();
  const ms = Number(values['idle-seconds']) * 1000;
  await sleep(ms);
  const { user, system } = process.cpuUsage(cpu);
  await processor.stop(1_000);
  return { percentOfACore: Math.round((user + system) / ms) / 10 };
}

const MEASURES: Readonly<Record<string, (output: string) => Promise<object>>> = {
  ours: (output) => measure(records, ours(output)),
  scored: (output) => measure(records, scored(output)),
  idle,
};

if (values.measure) console.log(JSON.stringify(await MEASURES[values.measure]!(values.output!)));
else {
  await using cluster = await KafkaCluster.start();
  const filled = await fill(cluster, { name: 'bench-in', partitions: PARTITIONS, records });
  const empty = await cluster.createTopic('bench-idle', PARTITIONS);
  const once = (name: string, round: number, output: string, topic: string): void => {
    const names = { measure: name, broker: cluster.brokers[0]!, topic, output, records: String(records) };
    const args = Object.entries({ ...names, 'idle-seconds': values['idle-seconds'] }).map(([k, v]) => `--${k}=${v}`);
    const file = name === 'bare' ? path.join(import.meta.dirname, 'bare.ts') : import.meta.filename;
    const result = execFileSync(process.execPath, [file, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    console.log(JSON.stringify({ name, round, ...JSON.parse(result) }));
  };
  const asked = (name: string): boolean => values.only === undefined || values.only === name;
  for (let round = 1; round <= Number(values.rounds); round++) {
    for (const name of ['bare', 'ours', 'scored'].filter(asked)) {
      once(name, round, await cluster.createTopic(`bench-${name}-${round}`, PARTITIONS), filled);
    }
  }
  if (asked('idle')) once('idle', 1, await cluster.createTopic('bench-idle-out', PARTITIONS), empty);
}
