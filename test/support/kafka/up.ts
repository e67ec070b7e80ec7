// `npm run kafka:up`: the broker of the tests on a fixed port, for people; Ctrl-C stops it.
import { KafkaCluster } from './cluster.ts';
import { whatIsMissing } from './install.ts';

const missing = await whatIsMissing();
if (missing) {
  console.error(`kafka:up needs ${missing}`);
  process.exit(1);
}
const port = Number(process.env.KAFKA_PORT ?? 9092);
console.error('starting; the first time takes about half a minute');
const cluster = await KafkaCluster.start({ port });
console.error(`Kafka listens on ${cluster.brokers[0]} (plain text, this machine only). Topics are not created by themselves:

  npm run kafka:topic -- loan-applications 4

Data is in ${cluster.folder} and removed at the end. Ctrl-C stops it.`);
const keep = setInterval(() => {}, 60_000);
let stopping = false;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, async () => {
    if (stopping) return;
    stopping = true;
    clearInterval(keep);
    await cluster.stop();
    console.error('stopped');
  });
}
