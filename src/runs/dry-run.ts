// `run --dry-run`: checks everything a pipeline needs and scores ten applications, without writing or committing anything.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pipeline } from '../config/pipeline-schema.ts';
import { SluiceError } from '../core/errors.ts';
import type { TopicDirectory } from '../kafka/topic-directory.ts';
import { TopicReader } from '../kafka/topic-reader.ts';
import type { RunContext } from './context.ts';
import { connectionOf } from './kafka-connection.ts';
import { recordFormat } from './record-format.ts';
import { recordScorer } from './record-scorer.ts';
import { checkTopics } from './topic-checks.ts';

const RECORDS = 10;
const PATIENCE_MS = 15_000;

/** Tells what it found, a line each. @throws SluiceError with what stands in the way */
export async function dryRun(pipeline: Pipeline, context: RunContext, log: (line: string) => void): Promise<void> {
  const host = await context.host();
  const hosted = await host.use(pipeline.model);
  log(
    `model ${pipeline.model} is ${hosted.model.ref}, sha256 ${hosted.model.manifest.onnx.sha256.slice(0, 12)}…, ${hosted.pool.evaluator}`,
  );
  hosted.release();
  const { source, sink } = pipeline;
  if (source.type === 'kafka' || sink.type === 'kafka') {
    const { topics, words } = await checkTopics(pipeline, async (directory) => {
      if (source.type === 'kafka') await describeGroup(directory, source.topic, source.group, log);
    });
    for (const { role, topic, partitions, maxBatchBytes } of topics) {
      log(`${role}: topic ${topic}, ${partitions} partitions, records up to ${maxBatchBytes} bytes`);
    }
    for (const word of words) log(word);
  }
  if (source.type === 'kafka') await scoreSome(pipeline, context, log);
  else log(`source: ${source.type === 'file' ? source.path : 'standard input'} (not read)`);
  log('nothing was written or committed');
}

async function describeGroup(
  directory: TopicDirectory,
  topic: string,
  group: string,
  log: (line: string) => void,
): Promise<void> {
  const { partitions } = await directory.facts(topic);
  let lag = 0n;
  let known = 0;
  for (let p = 0; p < partitions; p++) {
    const range = await directory.range(topic, p);
    const committed = await directory.committed(group, topic, p);
    if (committed !== null) known++;
    lag += range.high - (committed ?? range.low);
  }
  log(`group ${group}: offsets for ${known} of ${partitions} partitions, ${lag} records to read`);
}

async function scoreSome(pipeline: Pipeline, context: RunContext, log: (line: string) => void): Promise<void> {
  if (pipeline.source.type !== 'kafka') return;
  const { topic } = pipeline.source;
  // A separate group that never commits: the real one is not affected.
  const reader = await TopicReader.start({
    connection: connectionOf(pipeline.kafka),
    topic,
    group: `sluice-dry-run-${randomUUID()}`,
    untilCaughtUp: true,
    batchRows: RECORDS,
  });
  const scorer = recordScorer(pipeline, await context.host());
  try {
    const iterator = reader[Symbol.asyncIterator]();
    const first = await Promise.race([iterator.next(), sleep(PATIENCE_MS, null)]);
    if (first === null || first.done) {
      log(`the topic ${topic} is empty: nothing could be scored`);
      return;
    }
    const records = first.value.records.slice(0, RECORDS);
    const { answers } = await (
      await recordFormat({ ...pipeline, sink: { type: 'stdio', format: 'ndjson', compression: 'none' } })
    ).score(
      scorer,
      records.map((r) => r.value),
    );
    const rejected = answers.filter((a) => a.error);
    log(`${records.length} records tried: ${records.length - rejected.length} scored, ${rejected.length} rejected`);
    for (const { error } of rejected.slice(0, 3)) log(`  ${error!.code} ${error!.column ?? ''} ${error!.message}`);
    if (rejected.length === records.length)
      throw new SluiceError('nothing_scored', `none of ${records.length} records could be scored`);
  } finally {
    scorer.close();
    await reader.stop();
  }
}
