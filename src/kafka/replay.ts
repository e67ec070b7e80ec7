// Dead letters back to where they came from, once each: the replay is a processor with a group of its own.

import { SluiceError } from '../core/errors.ts';
import { inBackground } from '../core/in-background.ts';
import type { KafkaConnection } from './client/connection.ts';
import type { IncomingRecord, OutgoingRecord } from './client/records.ts';
import { DEAD_LETTER_HEADERS, headerText, originalHeaders } from './dead-letters.ts';
import type { KafkaObserver } from './observer.ts';
import { TransactionalProcessor } from './processor.ts';
import { TopicDirectory } from './topic-directory.ts';

export interface ReplayOptions {
  connection: KafkaConnection;
  deadLetterTopic: string;
  /** Default: the topic each record came from. */
  topic?: string;
  /** Remembers what was replayed. Default: `sluice-replay-<deadLetterTopic>`. */
  group?: string;
  /** Which to put back, by their headers; the others count as skipped and are not asked about again. Default: all. */
  select?: (letter: { code: string | undefined; column: string | undefined }) => boolean;
  signal?: AbortSignal;
  observer?: Pick<KafkaObserver, 'onLog' | 'onAbort' | 'onRestart'>;
}

export interface ReplayReport {
  /** Put back. */
  replayed: number;
  /** Not selected. */
  skipped: number;
  /** Only the beginning of the value is left, or nothing says where it came from. */
  unusable: number;
}

/**
 * Puts everything that is in the topic now back, with the original bytes, key and headers, in one transaction with the
 * position of the replay: a second call goes on where the first one ended.
 * @throws SluiceError cancelled, or what ended the run
 */
export async function replayDeadLetters(options: ReplayOptions): Promise<ReplayReport> {
  const { connection, deadLetterTopic, signal, observer } = options;
  const count = new ReplayCount();
  const directory = new TopicDirectory(connection);
  const processor = await TransactionalProcessor.start({
    connection,
    topic: deadLetterTopic,
    group: options.group ?? `sluice-replay-${deadLetterTopic}`,
    outputTopic: null,
    deadLetterTopic: null,
    untilCaughtUp: true,
    process: async ({ partition, records, next }) => {
      const outputs: OutgoingRecord[] = [];
      const tally = count.begin(partition, records[0]!.offset, next);
      for (const record of records) {
        const verdict = await restore(record, options, directory);
        if (typeof verdict === 'string') tally[verdict]++;
        else outputs.push(verdict);
      }
      tally.replayed = outputs.length;
      return { outputs, rejected: [] };
    },
    observer: {
      onLog: (entry) => observer?.onLog?.(entry),
      onAbort: (event) => observer?.onAbort?.(event),
      onRestart: (event) => observer?.onRestart?.(event),
      onTransaction: ({ partition, next }) => count.committed(partition, next),
    },
  });
  const stopOnAbort = () => inBackground('stopping a replay', () => processor.stop(5_000));
  signal?.addEventListener('abort', stopOnAbort, { once: true });
  try {
    if (signal?.aborted) stopOnAbort();
    await processor.done;
  } finally {
    signal?.removeEventListener('abort', stopOnAbort);
    await processor.stop(10_000);
    await directory.close();
  }
  if (signal?.aborted) throw new SluiceError('cancelled', 'the replay was cancelled');
  return count.total;
}

/** The record as it was, or why it stays where it is. */
async function restore(
  letter: IncomingRecord,
  options: ReplayOptions,
  directory: TopicDirectory,
): Promise<OutgoingRecord | 'skipped' | 'unusable'> {
  const text = (name: string) => headerText(letter.headers, name);
  const from = text(DEAD_LETTER_HEADERS.topic);
  const topic = options.topic ?? from;
  if (topic === undefined || text(DEAD_LETTER_HEADERS.truncated) !== undefined) return 'unusable';
  const selected = options.select?.({
    code: text(DEAD_LETTER_HEADERS.code),
    column: text(DEAD_LETTER_HEADERS.column),
  });
  if (selected === false) return 'skipped';
  const { key, value, timestamp } = letter;
  const record = { topic, key, value, timestamp, headers: originalHeaders(letter.headers) };
  const partition = Number(text(DEAD_LETTER_HEADERS.partition) ?? Number.NaN);
  // Back to the very partition, for the sake of order; another topic places it by its key.
  const home = topic === from && partition < (await directory.facts(topic)).partitions;
  return home ? { ...record, partition } : record;
}

interface Tally extends ReplayReport {
  next: bigint;
}

/** Counts what transactions committed: batches may be processed more than once. */
class ReplayCount {
  readonly total: ReplayReport = { replayed: 0, skipped: 0, unusable: 0 };
  readonly #open = new Map<number, Tally[]>();

  /** A batch from offset `first`: what was counted behind that offset was never committed. */
  begin(partition: number, first: bigint, next: bigint): Tally {
    const tally = { next, replayed: 0, skipped: 0, unusable: 0 };
    const earlier = (this.#open.get(partition) ?? []).filter((t) => t.next <= first);
    this.#open.set(partition, [...earlier, tally]);
    return tally;
  }

  committed(partition: number, next: bigint): void {
    const open = this.#open.get(partition) ?? [];
    for (const tally of open) {
      if (tally.next > next) continue;
      this.total.replayed += tally.replayed;
      this.total.skipped += tally.skipped;
      this.total.unusable += tally.unusable;
    }
    this.#open.set(
      partition,
      open.filter((t) => t.next > next),
    );
  }
}
