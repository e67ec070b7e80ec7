// `npm run kafka:latency`: `sluice run` between two topics against a plain Python loop that consumes, scores and produces, on the same
// applications with the same model. A steady rate: time from the application to its answer as a committed reader sees it, and CPU. A
// drain: records a second, CPU and peak memory. In turns, each a process of its own.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import { build, environment, ROOT } from '../../../../bench/prepare.ts';
import { someApplications } from '../../../support/kafka/applications.ts';
import { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { fill } from './fill.ts';

const { values } = parseArgs({
  options: {
    rate: { type: 'string', default: '500' },
    seconds: { type: 'string', default: '30' },
    rounds: { type: 'string', default: '3' },
    /** Of the drain; 0: none. */
    records: { type: 'string', default: '200000' },
    partitions: { type: 'string', default: '4' },
    /** Further lines of the pipeline. */
    pipeline: { type: 'string', default: '' },
    /** Of the loop: a transaction for each poll, as `sluice run` has, or none. */
    delivery: { type: 'string', default: 'transactions' },
    /** Of the loop: how long a poll waits for records. `sluice run` commits every 20 ms by default. */
    'poll-ms': { type: 'string', default: '20' },
    /** sluice or python. */
    only: { type: 'string' },
  },
});
const WARM_UP_SECONDS = '8';
const PACKAGES = path.resolve('test/fixtures/packages');
const MODEL = path.join(PACKAGES, 'credit-columns/1/model.onnx');
const partitions = Number(values.partitions);

interface Usage {
  cpuSeconds: number;
  peakMb: number;
}

/** Of a living process with its threads. Source: /proc, in ticks of 10 ms and kB. */
function usageOf({ pid }: ChildProcess): Usage {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1];
  return { cpuSeconds: (Number(fields[11]) + Number(fields[12])) / 100, peakMb: Math.round(Number(peak) / 1024) };
}

const [node, ...args] = (await build(ROOT)).sluice;
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-latency-'));
const python = await environment('venv-kafka', 'requirements-kafka.txt', 'the Python loop');
if (!python) process.exit(1);
await using cluster = await KafkaCluster.start();
const broker = cluster.brokers[0]!;
const applications = path.join(folder, 'applications.jsonl');
writeFileSync(
  applications,
  someApplications()
    .map((a) => JSON.stringify(a))
    .join('\n'),
);

type Begin = (source: string, target: string) => ChildProcess;
const CONTENDERS: Readonly<Record<string, Begin>> = {
  sluice: (source, target) => {
    const file = path.join(folder, `${target}.yaml`);
    writeFileSync(
      file,
      `model: credit-columns
source: { type: kafka, topic: ${source}, group: ${target} }
sink: { type: kafka, topic: ${target} }
kafka: { brokers: ["${broker}"] }
${values.pipeline.replaceAll('\\n', '\n')}
`,
    );
    return spawn(node!, [...args, 'run', file, '--registry', PACKAGES], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  },
  python: (source, target) =>
    spawn(
      python,
      [
        path.join(import.meta.dirname, 'loop.py'),
        broker,
        source,
        target,
        target,
        MODEL,
        values.delivery,
        values['poll-ms'],
      ],
      {
        stdio: ['ignore', 'ignore', 'inherit'],
      },
    ),
};

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) throw new Error('a contender ended by itself');
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await gone;
}

async function steady(begin: Begin, name: string): Promise<object> {
  const source = await cluster.createTopic(`${name}-in`, partitions);
  const target = await cluster.createTopic(`${name}-out`, partitions);
  const child = begin(source, target);
  await sleep(5_000);
  const drive = (seconds: string) => {
    const args = [broker, source, target, applications, values.rate, seconds];
    return promisify(execFile)(python!, [path.join(import.meta.dirname, 'drive.py'), ...args]);
  };
  await drive(WARM_UP_SECONDS);
  const before = usageOf(child);
  const { stdout } = await drive(values.seconds);
  const after = usageOf(child);
  await end(child);
  const cpuSeconds = Math.round((after.cpuSeconds - before.cpuSeconds) * 100) / 100;
  return { ...JSON.parse(stdout), cpuSeconds, peakMb: after.peakMb };
}

async function drain(begin: Begin, name: string, filled: string, records: number): Promise<object> {
  const target = await cluster.createTopic(`${name}-out`, partitions);
  const admin = await cluster.admin();
  const child = begin(filled, target);
  const began = performance.now();
  // A leader that was just made may not know that it is one.
  const offsets = () => admin.fetchTopicOffsets(target).catch(() => []);
  let first = 0;
  for (let written = 0; written < records; await sleep(50)) {
    if (child.exitCode !== null) throw new Error('a contender ended by itself');
    written = (await offsets()).reduce((sum, p) => sum + Math.max(0, Number(p.offset)), 0);
    if (first === 0 && written > 0) first = performance.now();
  }
  const done = performance.now();
  const { cpuSeconds, peakMb } = usageOf(child);
  await end(child);
  const recordsPerSecond = Math.round(records / ((done - first) / 1000));
  return { recordsPerSecond, seconds: Math.round((done - began) / 100) / 10, cpuSeconds, peakMb };
}

const records = Number(values.records);
const filled = records > 0 ? await fill(cluster, { name: 'drain-in', partitions, records }) : null;
const say = (name: string, round: number, what: string, result: object) =>
  console.log(JSON.stringify({ name, round, what, ...result }));
for (let round = 1; round <= Number(values.rounds); round++) {
  for (const [name, begin] of Object.entries(CONTENDERS)) {
    if (values.only && values.only !== name) continue;
    if (Number(values.seconds) > 0) say(name, round, 'steady', await steady(begin, `${name}-steady-${round}`));
    if (filled) say(name, round, 'drain', await drain(begin, `${name}-drain-${round}`, filled, records));
  }
}
rmSync(folder, { recursive: true, force: true });
