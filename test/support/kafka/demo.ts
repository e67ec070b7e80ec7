// `npm run demo:kafka`: a broker, a stream of applications, two scoring processes of which one is killed, lag and rates live.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { KafkaCluster } from './cluster.ts';
import { whatIsMissing } from './install.ts';
import { committed, eachRecord } from './topics.ts';

const { values } = parseArgs({
  options: { records: { type: 'string', default: '60000' }, rate: { type: 'string', default: '4000' } },
});
const RECORDS = Number(values.records);
const RATE = Number(values.rate);
const PARTITIONS = 4;
const state = { sent: 0 };

const say = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
const missing = await whatIsMissing();
if (missing) {
  console.error(`demo:kafka needs ${missing}`);
  process.exit(1);
}
say('1. A broker of its own (the first time it is fetched, half a minute)');
await using cluster = await KafkaCluster.start();
const [input, output, letters] = await Promise.all([
  cluster.createTopic('loan-applications', PARTITIONS),
  cluster.createTopic('loan-predictions', PARTITIONS),
  cluster.createTopic('loan-applications-rejected', 1),
]);
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-demo-'));
const file = path.join(folder, 'loan-applications.yaml');
writeFileSync(
  file,
  `model: credit-default@champion
source: { type: kafka, topic: ${input}, group: scoring }
sink: { type: kafka, topic: ${output} }
dead_letter: { type: kafka, topic: ${letters} }
score: { workers: 1 }
kafka: { brokers: ["${cluster.brokers.join('","')}"], session_timeout_ms: 6000 }
`,
);
say(`2. Two processes: sluice run ${path.basename(file)}`);
const run = (): ChildProcess => {
  const child = spawn(process.execPath, ['src/main.ts', 'run', file], { stdio: ['ignore', 'ignore', 'pipe'] });
  child.stderr!.resume();
  return child;
};
process.on('exit', () => {
  first.kill('SIGKILL');
  second.kill('SIGKILL');
});
let first = run();
const second = run();

say(
  `3. ${RECORDS.toLocaleString('en')} applications at ${RATE.toLocaleString('en')} a second, every 1,000th of them broken\n`,
);
const producing = produce();
let last = 0;
let done = false;
for (let t = 0; !done; t++) {
  await sleep(1000);
  // A fresh broker has no coordinator for the group yet.
  const read = await committed(cluster, 'scoring', input).catch(() => last);
  const lag = state.sent - read;
  const bar = '█'.repeat(Math.min(40, Math.round(lag / (RATE / 10))));
  say(
    `   ${String(t + 1).padStart(3)} s  sent ${pad(state.sent)}  scored ${pad(read)}  ${pad(read - last)}/s  lag ${pad(lag)} ${bar}`,
  );
  last = read;
  if (t === 6) {
    say('         … one process is killed (kill -9) and started again');
    first.kill('SIGKILL');
    first = run();
  }
  done = read >= RECORDS || t > 180;
}
await producing;
const seen = new Map<number, number>();
await eachRecord(cluster, output, (m) => count(JSON.parse(m.value!.toString()).application_id as number));
let rejected = 0;
await eachRecord(cluster, letters, (m) => {
  rejected++;
  count(JSON.parse(m.value!.toString()).application_id as number);
});
const doubled = [...seen.values()].filter((n) => n > 1).length;
say(
  `\n4. ${RECORDS.toLocaleString('en')} sent = ${(seen.size - rejected).toLocaleString('en')} predictions + ${rejected} dead letters; ${RECORDS - seen.size} lost, ${doubled} doubled`,
);
for (const child of [first, second]) child.kill('SIGTERM');
await Promise.all([first, second].map((child) => new Promise((resolve) => child.once('exit', resolve))));
rmSync(folder, { recursive: true, force: true });
process.exitCode = seen.size === RECORDS && doubled === 0 ? 0 : 1;

function pad(n: number): string {
  return n.toLocaleString('en').padStart(7);
}

function count(id: number): void {
  seen.set(id, (seen.get(id) ?? 0) + 1);
}

async function produce(): Promise<void> {
  const producer = cluster.client().producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const [header, ...lines] = Buffer.concat([...generatePortfolio({ rows: RECORDS, seed: 7, oddness: 'none' })])
    .toString()
    .trimEnd()
    .split('\n');
  const names = header!.split(',');
  const step = Math.max(1, Math.round(RATE / 10));
  for (let from = 0; from < RECORDS; from += step) {
    const due = performance.now() + 100;
    const messages = lines.slice(from, from + step).map((line, k) => {
      const i = from + k;
      const cells = line.split(',');
      const application = Object.fromEntries(names.map((n, j) => [n, cells[j] === '' ? null : cells[j]]));
      if (i % 1000 === 999) application.amount = 'a lot';
      return {
        key: String(i),
        value: JSON.stringify({ ...application, application_id: i }),
        partition: i % PARTITIONS,
      };
    });
    await producer.send({ topic: input, messages });
    state.sent = Math.min(RECORDS, from + step);
    await sleep(Math.max(0, due - performance.now()));
  }
  await producer.disconnect();
}
