// The retry topic of a pipeline. A second processor reads the topic after a delay and writes the answers to the
// pipeline's topics.

import type { RetryPolicy } from '../../connectors/kafka/dlq/dead-letter.ts';
import { type KafkaPlaces, withAdvice } from '../../connectors/kafka/kafka-error-messages.ts';
import { Liveness } from '../../connectors/kafka/liveness.ts';
import { type ProcessorOptions, TransactionalProcessor } from '../../connectors/kafka/processor.ts';
import { TopicDirectory } from '../../connectors/kafka/topic-directory.ts';
import { SluiceError } from '../../core/errors.ts';
import type { DeadLetter } from '../../pipeline/pipeline-schema.ts';
import type { RunContext } from '../context.ts';
import { observerOf } from './kafka-metrics.ts';

/** Maximum size of waiting records in memory, in bytes. The limit is small because the records wait for minutes. */
const IN_FLIGHT_BYTES = 2 * 1024 * 1024;

/** Returns null if no retries are configured. */
export function retryPolicyOf(letters: DeadLetter | undefined): RetryPolicy | null {
  const retry = letters?.type === 'kafka' ? letters.retry : undefined;
  if (!retry) return null;
  const { topic, codes, delay_ms, attempts } = retry;
  return { topic, codes: new Set(codes), delayMs: delay_ms, attempts };
}

export const retryGroupOf = (letters: DeadLetter | undefined, group: string): string =>
  (letters?.type === 'kafka' ? letters.retry?.group : undefined) ?? `${group}-retry`;

interface TopicRetriesOptions {
  policy: RetryPolicy;
  /** Options of the pipeline's processor, with the consumer group for retries. */
  processor: ProcessorOptions;
  places: KafkaPlaces;
  context: RunContext;
  /** Number of records written to the retry topic so far. */
  postponed: () => number;
}

/**
 * Retries of a pipeline. Call `prepare` first. Then either `start` reads until `stop`, or `finish` reads until no
 * record is waiting.
 */
export class TopicRetries {
  readonly #options: TopicRetriesOptions;
  readonly #liveness: Liveness;
  #processor: TransactionalProcessor | null = null;
  #stopped = false;

  constructor(options: TopicRetriesOptions) {
    this.#options = options;
    this.#liveness = new Liveness(options.policy.delayMs);
  }

  /** Whether due records are being answered; true before reading starts. */
  get ready(): boolean {
    return this.#processor === null || this.#liveness.ready;
  }

  /** The processor that is running; null before the first start. */
  get processor(): TransactionalProcessor | null {
    return this.#processor;
  }

  /** Checks topic and group before anything is started. @throws SluiceError kafka_* */
  async prepare(): Promise<void> {
    const { policy, processor, places } = this.#options;
    const directory = new TopicDirectory(processor.connection);
    let fault: string | null;
    try {
      await directory.offsets(processor.group, policy.topic);
      fault = await wouldLose(directory, policy);
    } catch (error) {
      throw withAdvice(error, places);
    } finally {
      await directory.close();
    }
    if (fault !== null) throw new SluiceError('kafka_config', `the retry topic ${policy.topic} ${fault}`);
  }

  /**
   * Starts a processor. Resolves when the processor has joined the group; `done` rejects with the error that ends it.
   * @throws SluiceError kafka_*
   */
  async start(untilCaughtUp = false): Promise<{ done: Promise<void> }> {
    const { policy, processor, context, places } = this.#options;
    try {
      const started = await TransactionalProcessor.start({
        ...processor,
        topic: policy.topic,
        delayMs: policy.delayMs,
        startAt: 'earliest',
        onOffsetLost: 'stop',
        untilCaughtUp,
        maxInFlightBytes: IN_FLIGHT_BYTES,
        observer: this.#liveness.beside(observerOfRetries(context, policy.topic)),
      });
      this.#processor = started;
      if (this.#stopped) await started.stop(0);
      const done = started.done.catch((error: unknown) => {
        throw withAdvice(error, places);
      });
      done.catch(() => {});
      return { done };
    } catch (error) {
      throw withAdvice(error, places);
    }
  }

  /**
   * Reads the topic repeatedly until no record is added, because a record that fails again must wait again.
   * @throws SluiceError kafka_*
   */
  async finish(): Promise<void> {
    for (let before = -1; before !== this.#options.postponed() && !this.#stopped; ) {
      before = this.#options.postponed();
      const { done } = await this.start(true);
      await done;
      await this.#processor?.stop(0);
    }
  }

  async stop(deadlineMs: number): Promise<void> {
    this.#stopped = true;
    await this.#processor?.stop(deadlineMs);
  }
}

/** Why waiting records could be deleted before they are retried; null if that cannot happen. */
async function wouldLose(directory: TopicDirectory, { topic, delayMs }: RetryPolicy): Promise<string | null> {
  if (await directory.compacted(topic)) return 'is compacted: it needs cleanup.policy=delete';
  const { times, settingsKnown } = await directory.facts(topic);
  if (!settingsKnown || times.retentionMs >= 2 * delayMs) return null;
  return `retains records for ${times.retentionMs} ms, but a record waits ${delayMs} ms for its next attempt: set its retention.ms to at least ${2 * delayMs}`;
}

/** Waiting records have their own metric: unlike lag, they require no action. */
function observerOfRetries(context: RunContext, topic: string): ReturnType<typeof observerOf> {
  const { metrics, name } = context;
  const waiting = new Map<number, number>();
  const tell = () =>
    metrics?.retryWaiting.set(
      { pipeline: name },
      [...waiting.values()].reduce((a, b) => a + b, 0),
    );
  return {
    ...observerOf(context, topic, true),
    onAssigned() {
      waiting.clear();
      tell();
    },
    onLag({ partition, lag }) {
      waiting.set(partition, lag);
      tell();
    },
    onPaused() {},
  };
}
