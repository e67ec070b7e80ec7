// The doors of a broker, a real one: topic to topic, topic to files, files to a topic.
import { gunzipSync } from 'node:zlib';
import type { Message } from 'kafkajs';
import { KafkaCluster } from '../../test/support/kafka/cluster.ts';
import { whatIsMissing } from '../../test/support/kafka/install.ts';
import { produce, readTopic, type SeenRecord } from '../../test/support/kafka/topics.ts';
import { warn } from '../run.ts';
import { applications, brokenLines } from './corpus.ts';
import { type Case, commandLine, type Seen, type Side } from './side.ts';

const PARTITIONS = 3;
const BEGAN = 1_700_000_000_000;

interface TopicCase {
  name: string;
  /** Of a pipeline; IN, OUT and LETTERS stand for the topics of a side, GROUP for its group. */
  pipeline: string;
  /** Goes into IN; null: the source is no topic. */
  records: readonly Message[] | null;
  /** What is written cannot be told to the record, as where a run ends in the middle. */
  onlyExit?: boolean;
  /** Records without keys lie in any partition. */
  anyPartition?: boolean;
}

const FROM = 'source: { type: kafka, topic: IN, group: GROUP, until_caught_up: true }';
const TO = 'sink: { type: kafka, topic: OUT }';
const LETTERS = 'dead_letter: { type: kafka, topic: LETTERS }';

const records = (values: readonly (string | null)[]): Message[] =>
  values.map((value, i) => ({
    key: i % 5 === 4 ? null : `k${i}`,
    value,
    partition: i % PARTITIONS,
    timestamp: String(BEGAN + i),
    headers: { traceparent: `00-${i}`, empty: '' },
  }));

function cases(): TopicCase[] {
  const good = applications(true).map((a, i) => JSON.stringify({ ...a, id: i, note: '婚 "=1"' }));
  const mixed = records([...good.slice(0, 150), ...brokenLines(), null, '', ...good.slice(150)]);
  const pure = records(good);
  const model = 'model: credit-default';
  const list: TopicCase[] = [
    { name: 'dead letters', pipeline: `${model}\n${FROM}\n${TO}\n${LETTERS}`, records: mixed },
    { name: 'report', pipeline: `${model}\n${FROM}\n${TO}\non_invalid: report`, records: mixed },
    {
      name: 'report with a dead letter topic',
      pipeline: `${model}\n${FROM}\n${TO}\n${LETTERS}\non_invalid: report`,
      records: mixed,
    },
    { name: 'neither', pipeline: `${model}\n${FROM}\n${TO}`, records: mixed },
    { name: 'fail', pipeline: `${model}\n${FROM}\n${TO}\non_invalid: fail`, records: mixed, onlyExit: true },
    {
      name: 'at least once',
      pipeline: `${model}\n${FROM}\n${TO}\n${LETTERS}\ndelivery: at_least_once`,
      records: mixed,
    },
    {
      name: 'effects',
      pipeline: `${model}\n${FROM}\n${TO}\n${LETTERS}\nscore: { interpretation: effects, top_effects: 3, interpret_below: 0.5 }`,
      records: mixed,
    },
    { name: 'reasons', pipeline: `${model}\n${FROM}\n${TO}\nscore: { interpretation: reasons }`, records: pure },
    {
      name: 'passthrough of a name',
      pipeline: `${model}\n${FROM}\n${TO}\n${LETTERS}\nscore: { passthrough: [id] }`,
      records: mixed,
    },
    {
      name: 'passthrough of nothing',
      pipeline: `${model}\n${FROM}\n${TO}\n${LETTERS}\nscore: { passthrough: [] }`,
      records: mixed,
    },
    {
      name: 'small batches',
      pipeline: `${model}\n${FROM}\n${TO}\n${LETTERS}\nscore: { batch_rows: 7, record_bytes: 700 }\ntransaction_rows: 50`,
      records: mixed,
    },
    { name: 'an empty topic', pipeline: `${model}\n${FROM}\n${TO}`, records: [] },
  ];
  for (const [to, more] of [
    ['f-{partition}-{offset}.ndjson', ''],
    ['f-{partition}-{offset}.ndjson.gz', ''],
    ['f-{partition}-{offset}.ndjson', 'score: { interpretation: effects, passthrough: [id] }'],
    ['f-{partition}-{offset}.csv', ''],
    ['f-{partition}-{offset}.parquet', ''],
    ['f-{partition}-{offset}', ''],
  ]) {
    const sink = `sink: { type: file, path: "${to}" }`;
    list.push({
      name: `files ${to} ${more}`,
      pipeline: `${model}\n${FROM}\n${sink}\n${LETTERS}\n${more}`,
      records: mixed,
    });
    list.push({ name: `files ${to} ${more}, report`, pipeline: `${model}\n${FROM}\n${sink}\n${more}`, records: mixed });
  }
  for (const file of [
    'ids.csv',
    'faults.csv',
    'ids.ndjson',
    'broken.ndjson',
    'native.parquet',
    'plain.csv.gz',
    'ids.json',
  ]) {
    const from = `source: { type: file, path: in/${file} }`;
    list.push({ name: `from ${file}`, pipeline: `${model}\n${from}\n${TO}`, records: null, anyPartition: true });
  }
  const ids = 'source: { type: file, path: in/ids.csv }';
  const keyed = 'sink: { type: kafka, topic: OUT, key: application_id, compression: gzip }';
  list.push({ name: 'from ids.csv with keys', pipeline: `${model}\n${ids}\n${keyed}`, records: null });
  return list;
}

/** Starts one broker for both sides when a case is wanted. */
export async function* topicCases(sides: readonly Side[], only: string): AsyncIterable<Case> {
  const wanted = cases().filter(({ name }) => `topic ${name}`.includes(only));
  if (wanted.length === 0) return;
  const missing = whatIsMissing();
  if (missing !== null) return warn(`topics are not compared: this machine has no ${missing}`);
  await using cluster = await KafkaCluster.start();
  for (const [i, one] of wanted.entries()) {
    for (const side of sides) {
      for (const [what, partitions] of [
        ['in', PARTITIONS],
        ['out', PARTITIONS],
        ['letters', 1],
      ] as const) {
        // The records are old, and what is written has their time.
        await cluster.createTopic(`${side.name}-${i}-${what}`, partitions, { 'retention.ms': '-1' });
      }
      if (one.records && one.records.length > 0) await produce(cluster, `${side.name}-${i}-in`, [...one.records]);
    }
    yield { name: `topic ${one.name}`, see: (side) => see(cluster, side, i, one) };
  }
}

async function see(cluster: KafkaCluster, side: Side, i: number, one: TopicCase): Promise<Seen> {
  const mine = `${side.name}-${i}`;
  const pipeline = one.pipeline
    .replaceAll(/\b(IN|OUT|LETTERS)\b/g, (topic) => `${mine}-${topic.toLowerCase()}`)
    .replace('GROUP', `${mine}-group`);
  const text = `${pipeline}\nkafka: { brokers: ["${cluster.brokers.join('","')}"] }\n`;
  const line = { args: ['run', 'p.yaml'], files: { 'p.yaml': text } };
  const seen = await commandLine(side, `topic ${one.name}`, line);
  if (one.onlyExit) return new Map([...seen].filter(([part]) => /code$/.test(part)));
  const own = (bytes: string): Buffer => Buffer.from(bytes.replaceAll(mine, 'SIDE'));
  // Lines name the topic of their record, so that even compressed files differ by the names of the sides.
  for (const [part, bytes] of seen) {
    if (part.endsWith('.gz')) seen.set(part, own(unpacked(bytes)));
    else seen.set(part, own(bytes.toString('latin1')));
  }
  const out = (await readTopic(cluster, `${mine}-out`)).map((r) => (one.anyPartition ? { ...r, partition: -1 } : r));
  const letters = await readTopic(cluster, `${mine}-letters`);
  const now = one.records === null;
  seen.set('records', own(listed(out, { now, sorted: one.anyPartition === true })));
  seen.set('dead letters', own(listed(letters, { now: true, sorted: true })));
  return seen;
}

/** The text of a gzip file; what is not gzip as it is. */
function unpacked(bytes: Buffer): string {
  try {
    return gunzipSync(bytes).toString('latin1');
  } catch {
    return bytes.toString('latin1');
  }
}

/** A line a record; partition by partition in order, or sorted where the order is nobody's promise. */
function listed(all: readonly SeenRecord[], { now, sorted }: { now: boolean; sorted: boolean }): string {
  const byPartition = all.toSorted((a, b) => a.partition - b.partition);
  const lines = byPartition.map((r) => JSON.stringify({ ...r, ...(now ? { timestamp: 'now' } : {}) }));
  return (sorted ? lines.toSorted() : lines).map((line) => `${line}\n`).join('');
}
