// The Kafka part of a dry run: describes the topics and the consumer group, and reads ten records without committing.
import { kafkaClient } from '../../connectors/kafka/choose-client.ts';
import type { KafkaConnection } from '../../connectors/kafka/client/connection.ts';
import type { PartitionScanner } from '../../connectors/kafka/client/kafka-client.ts';
import type { IncomingRecord } from '../../connectors/kafka/client/records.ts';
import { connectionOf } from '../../connectors/kafka/connection-settings.ts';
import { withAdvice } from '../../connectors/kafka/kafka-error-messages.ts';
import type { KafkaSource } from '../../connectors/kafka/kafka-options.ts';
import { checkTopics } from '../../connectors/kafka/topic-checks.ts';
import type { TopicDirectory } from '../../connectors/kafka/topic-directory.ts';
import { namedTopics, topicsWritten } from '../../connectors/kafka/topics.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import type { RunContext } from '../context.ts';
import { recordFormat } from './record-format.ts';
import { recordScorer } from './record-scorer.ts';
import { checkRoutes } from './topic-routes.ts';
import { kafkaPlacesOf } from './topic-source.ts';

const RECORDS = 10;
const FETCH_BYTES = 256 * 1024;
/** Maximum wait for an open transaction in ms. If the transaction takes longer, the records after it are not read. */
const OPEN_TRANSACTION_MS = 3_000;

type FromTopic = Pipeline & { source: KafkaSource };

/** Describes the topics and the group, and scores ten records. @throws SluiceError if the run would fail */
export async function dryRunOfTopic(
  { source: end, ...rest }: Pipeline,
  context: RunContext,
  log: (line: string) => void,
): Promise<void> {
  const source = end as KafkaSource;
  const pipeline: FromTopic = { ...rest, source };
  let reads = namedTopics(source);
  let records: readonly IncomingRecord[];
  try {
    const group: string[] = [];
    await describeTopics(pipeline, log, async (directory, found) => {
      reads = found;
      for (const topic of found) {
        group.push(await describeGroup(directory, source, topic, found.length > 1));
      }
    });
    for (const line of group) log(line);
    records = await firstRecords(connectionOf(pipeline.kafka), reads, log);
  } catch (error) {
    throw withAdvice(error, kafkaPlacesOf(pipeline, reads, topicsWritten(pipeline)));
  }
  await scoreSome(pipeline, records, context, log);
}

/** Logs the topics of a pipeline. @throws SluiceError kafka_* */
export async function describeTopics(
  pipeline: Pipeline,
  log: (line: string) => void,
  more?: (directory: TopicDirectory, reads: readonly string[]) => Promise<void>,
): Promise<void> {
  const { topics, notices } = await checkTopics(pipeline, more);
  for (const { role, topic, partitions, maxBatchBytes } of topics) {
    log(`${role}: topic ${topic}, ${partitions} partitions, records up to ${maxBatchBytes} bytes`);
  }
  for (const word of notices) log(word);
}

async function describeGroup(
  directory: TopicDirectory,
  { group, start_at }: KafkaSource,
  topic: string,
  named: boolean,
): Promise<string> {
  const [offsets, ranges] = await Promise.all([directory.offsets(group, topic), directory.ranges(topic)]);
  let lag = 0n;
  let known = 0;
  for (const [partition, { low, high }] of ranges) {
    const committed = offsets.get(partition) ?? null;
    if (committed !== null) known++;
    lag += high - (committed ?? (start_at === 'earliest' ? low : high));
  }
  return `group ${group}${named ? ` on ${topic}` : ''}: offsets for ${known} of ${ranges.size} partitions, ${lag} records to read`;
}

/**
 * Reads without a consumer group: the user may be permitted to join only the pipeline's group, and a dry run must not
 * disturb that group.
 */
async function firstRecords(
  connection: KafkaConnection,
  topics: readonly string[],
  log: (line: string) => void,
): Promise<readonly IncomingRecord[]> {
  const scanner = kafkaClient().scanner(connection);
  try {
    for (const topic of topics) {
      const found = await firstRecordsOf(scanner, topic, log);
      if (found.length > 0) return found;
      log(`the topic ${topic} is empty: nothing could be scored`);
    }
    return [];
  } finally {
    await scanner.close();
  }
}

async function firstRecordsOf(
  scanner: PartitionScanner,
  topic: string,
  log: (line: string) => void,
): Promise<readonly IncomingRecord[]> {
  const found: IncomingRecord[] = [];
  for (const [partition, { low, end }] of await scanner.bounds(topic)) {
    if (low >= end) continue;
    const stop = new AbortController();
    const onWait = (_: number, ms: number) => {
      if (ms > OPEN_TRANSACTION_MS) stop.abort();
    };
    const options = { signal: stop.signal, fetchBytes: FETCH_BYTES, onWait };
    try {
      for await (const some of scanner.scan({ topic, partition, from: low, end }, options)) {
        found.push(...some.slice(0, RECORDS - found.length));
        if (found.length === RECORDS) return found;
      }
    } catch (error) {
      if (!stop.signal.aborted) throw error;
      log(`partition ${partition} of ${topic}: records after an open transaction were not tried`);
    }
  }
  return found;
}

async function scoreSome(
  pipeline: FromTopic,
  records: readonly IncomingRecord[],
  context: RunContext,
  log: (line: string) => void,
): Promise<void> {
  if (records.length === 0) return;
  const scorer = recordScorer(pipeline, await context.host());
  try {
    const format = await recordFormat({ ...pipeline, sink: { type: 'stdio', format: 'ndjson', compression: 'none' } });
    const { answers, model } = await format.score(
      scorer,
      records.map((r) => r.value),
    );
    checkRoutes(pipeline.sink, model);
    const rejected = answers.filter((a) => a.error);
    log(`${records.length} records tried: ${records.length - rejected.length} scored, ${rejected.length} rejected`);
    for (const { error } of rejected.slice(0, 3)) log(`  ${error!.code} ${error!.column ?? ''} ${error!.message}`);
    if (rejected.length === records.length)
      throw new SluiceError('nothing_scored', `none of ${records.length} records could be scored`);
  } finally {
    scorer.close();
  }
}
