// From a topic to files: one file at a time a partition, named by its first offset; the offset is committed when the file is there.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { FileSink, KafkaSource, Pipeline } from '../config/pipeline-config.ts';
import { SluiceError } from '../core/errors.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import { openFileSink } from '../io/sink/file-sink.ts';
import { compressionOf, compressor } from '../io/source/compressed.ts';
import { deadLetter } from '../kafka/dead-letters.ts';
import type { MicroBatch, OutgoingRecord } from '../kafka/records.ts';
import { TopicReader } from '../kafka/topic-reader.ts';
import { TopicWriter } from '../kafka/topic-writer.ts';
import type { RunContext, RunningPipeline, RunTotals } from './context.ts';
import { connectionOf } from './kafka-connection.ts';
import { observerOf } from './kafka-metrics.ts';
import { recordFormat } from './record-format.ts';
import { RecordScorer } from './record-scorer.ts';
import { interpretationOf } from './spec.ts';

interface OpenFile {
  sink: ByteSink;
  write(bytes: Uint8Array): Promise<void>;
  commit(): Promise<void>;
  rows: number;
  opened: number;
  next: bigint;
}

/**
 * A file holds what lies between two committed offsets of one partition. After a crash the records of an unfinished file
 * are read again and the file begins anew under the same name, so nothing is lost and nothing is there twice.
 */
export async function startTopicFiles(pipeline: Pipeline, context: RunContext): Promise<RunningPipeline> {
  const source = pipeline.source as KafkaSource;
  const sink = pipeline.sink as FileSink;
  const { host, metrics } = context;
  const connection = connectionOf(pipeline.kafka);
  const totals: RunTotals = { rows: 0, scored: 0, rejected: 0 };
  const files = new Map<number, OpenFile>();
  const lags = new Map<number, number>();
  const scorer = new RecordScorer({
    host,
    model: pipeline.model,
    interpretation: interpretationOf(pipeline),
    passthrough: pipeline.score.passthrough ?? '*',
    maxRecordBytes: pipeline.score.record_bytes,
  });
  const letters =
    pipeline.dead_letter?.type === 'kafka'
      ? await TopicWriter.open({ connection, topic: pipeline.dead_letter.topic })
      : null;
  const format = await recordFormat(pipeline);
  const observer = observerOf(context);
  const reader = await TopicReader.start({
    connection,
    topic: source.topic,
    group: source.group,
    startAt: source.start_at,
    onOffsetLost: source.on_offset_lost,
    untilCaughtUp: source.until_caught_up,
    batchRows: pipeline.score.batch_rows,
    batchWaitMs: pipeline.score.batch_wait_ms,
    maxInFlightBytes: source.in_flight_bytes,
    fetchBytes: source.fetch_bytes,
    sessionTimeoutMs: pipeline.kafka.session_timeout_ms,
    observer: {
      ...observer,
      onLag: (event) => {
        lags.set(event.partition, event.lag);
        observer.onLag?.(event);
      },
    },
  });

  const finish = async (partition: number): Promise<void> => {
    const file = files.get(partition);
    if (!file) return;
    files.delete(partition);
    await file.commit();
    const lost = await reader.commit(new Map([[partition, file.next]]));
    if (lost.length > 0)
      context.tell(`partition ${partition} was taken away: its last file is written again by its new owner`);
  };

  const take = async (batch: MicroBatch): Promise<void> => {
    const { model, answers } = await format.score(
      scorer,
      batch.records.map((r) => r.value),
    );
    const lines: Buffer[] = [];
    const rejected: OutgoingRecord[] = [];
    answers.forEach((answer, i) => {
      const record = batch.records[i]!;
      if (answer.error && pipeline.on_invalid === 'fail') {
        throw new SluiceError(
          'invalid_row',
          `partition ${record.partition}, offset ${record.offset}: ${answer.error.code}`,
        );
      }
      if (answer.error && letters && pipeline.on_invalid === 'dead_letter')
        rejected.push(deadLetter(record, answer.error));
      else lines.push(answer.value ?? Buffer.from(JSON.stringify({ error: answer.error })), NEWLINE);
    });
    let file = files.get(batch.partition);
    if (!file) {
      file = await openAt(sink, batch.partition, batch.records[0]!.offset);
      files.set(batch.partition, file);
    }
    await file.write(Buffer.concat(lines));
    if (letters && rejected.length > 0) await letters.write(rejected);
    file.rows += batch.records.length;
    file.next = batch.next;
    totals.rows += batch.records.length;
    totals.rejected += rejected.length;
    totals.scored += batch.records.length - rejected.length;
    metrics.rows.inc({ model: model.ref, outcome: 'scored' }, batch.records.length - rejected.length);
    if (rejected.length > 0) metrics.rows.inc({ model: model.ref, outcome: 'rejected' }, rejected.length);
    if (file.rows >= sink.roll_rows) await finish(batch.partition);
  };

  // One thing at a time: a file that is being finished takes no rows.
  let turn: Promise<void> = Promise.resolve();
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    turn = turn.then(work);
    return turn;
  };
  const timer = setInterval(
    () => {
      const due = [...files].filter(([, f]) => Date.now() - f.opened >= sink.roll_ms).map(([p]) => p);
      for (const p of due) inTurn(() => finish(p)).catch(() => {});
    },
    Math.min(1000, sink.roll_ms),
  );
  let stopping = false;
  const done = (async () => {
    try {
      for await (const batch of reader) {
        if (stopping) break;
        await inTurn(() => take(batch));
      }
      for (const partition of [...files.keys()]) await inTurn(() => finish(partition));
    } finally {
      clearInterval(timer);
      for (const f of files.values()) await f.sink.abort();
      await letters?.close();
      await reader.stop();
      scorer.close();
    }
  })();
  done.catch(() => {});
  return {
    totals,
    lag: () => [...lags.values()].reduce((a, b) => a + b, 0),
    done,
    async stop() {
      stopping = true;
      // Files in hand are finished before the group is left: `finish` needs the membership.
      for (const partition of [...files.keys()]) await inTurn(() => finish(partition)).catch(() => {});
      await reader.stop();
      await done.catch(() => {});
    },
  };
}

const NEWLINE = Buffer.from('\n');

async function openAt(sink: FileSink, partition: number, offset: bigint): Promise<OpenFile> {
  const file = sink.path
    .replaceAll('{partition}', String(partition))
    .replaceAll('{offset}', String(offset).padStart(20, '0'))
    .replaceAll('{name}', 'topic');
  await mkdir(path.dirname(file), { recursive: true });
  const out = await openFileSink(file);
  const compression = sink.compression ?? compressionOf(file);
  const packed = compression === 'none' ? null : compressor(compression, (b) => out.write(b));
  return {
    sink: out,
    write: (bytes) => (packed ?? out).write(bytes),
    async commit() {
      await packed?.end();
      await out.commit();
    },
    rows: 0,
    opened: Date.now(),
    next: offset,
  };
}
