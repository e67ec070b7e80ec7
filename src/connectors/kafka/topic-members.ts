// Group members for all topics of a pipeline: one per topic.
// If the source has a pattern, a member is added for each topic that appears later.
import { inBackground } from '../../core/async.ts';
import { sleep } from '../../core/clock.ts';
import { asSluiceError, type SluiceError } from '../../core/errors.ts';
import { named, type Word, withAction, words } from '../../core/log.ts';
import type { TransactionalProcessor } from './processor.ts';

interface TopicMembersOptions {
  /** The topics at the start. */
  topics: readonly string[];
  /** Lists the topics that currently match; called periodically. null: the topics never change. */
  look: (() => Promise<readonly string[]>) | null;
  /** Starts a member. `late`: the topic did not exist at the start, so it is read from its beginning. */
  open: (topic: string, late: boolean) => Promise<TransactionalProcessor>;
  /** Called when a topic is no longer read. */
  onLeft: (topic: string) => void;
  onNotice: (event: { about: string; message: Word }) => void;
  /** Interval of topic lookups, ms. Default: 30,000. */
  everyMs?: number;
}

/** Maximum time to wait until the member of a removed topic has stopped, ms. */
const LEAVING_MS = 2_000;

/**
 * The members of a pipeline. `start` and `stop` can be called once each. `done` settles when all members have ended.
 */
export class TopicMembers {
  /** Resolves when all members have ended, or after `stop`. Rejects with the first error that ended a member. */
  readonly done: Promise<void>;
  readonly #options: TopicMembersOptions;
  readonly #members = new Map<string, TransactionalProcessor>();
  readonly #ended = new Set<string>();
  readonly #finish = Promise.withResolvers<void>();
  readonly #closing = new AbortController();
  #paused: string | null = null;
  #stopped: Promise<void> | null = null;

  constructor(options: TopicMembersOptions) {
    this.#options = options;
    this.done = this.#finish.promise;
    this.done.catch(() => {});
  }

  /** Starts a member for each topic. @throws the errors of TransactionalProcessor.start */
  async start(): Promise<void> {
    const { topics, look } = this.#options;
    // All members are started together, so that the group rebalances once instead of once per member.
    const starts = await Promise.allSettled(topics.map((topic) => this.#open(topic, false)));
    for (const start of starts) if (start.status === 'rejected') throw start.reason;
    if (look) inBackground('looking for topics', () => this.#lookOut(look));
    else if (topics.length === 0) this.#finish.resolve();
  }

  /** The members by topic. */
  get members(): ReadonlyMap<string, TransactionalProcessor> {
    return this.#members;
  }

  /** Number of uncommitted records over all topics. */
  lag(): number {
    return [...this.#members.values()].flatMap((m) => [...m.lag().values()]).reduce((a, b) => a + b, 0);
  }

  pause(reason: string): void {
    this.#paused = reason;
    for (const member of this.#members.values()) member.pause(reason);
  }

  resume(): void {
    this.#paused = null;
    for (const member of this.#members.values()) member.resume();
  }

  /** Stops all members concurrently; see TransactionalProcessor.stop. Idempotent. */
  stop(deadlineMs: number): Promise<void> {
    this.#stopped ??= this.#stop(deadlineMs);
    return this.#stopped;
  }

  async #stop(deadlineMs: number): Promise<void> {
    this.#closing.abort();
    await Promise.all([...this.#members.values()].map((m) => m.stop(deadlineMs)));
    this.#finish.resolve();
  }

  async #open(topic: string, late: boolean): Promise<void> {
    const member = await this.#options.open(topic, late);
    if (this.#closing.signal.aborted) return void (await member.stop(0));
    this.#members.set(topic, member);
    if (this.#paused !== null) member.pause(this.#paused);
    member.done.then(
      () => this.#end(topic),
      (error: unknown) =>
        inBackground('the end of a topic', () => this.#fail(topic, asSluiceError(error, 'kafka_failed'))),
    );
  }

  #end(topic: string): void {
    this.#ended.add(topic);
    const { look, topics } = this.#options;
    if (look === null && topics.every((t) => this.#ended.has(t))) this.#finish.resolve();
  }

  /**
   * Handles the error of a member. If a topic that matched the pattern was removed, only its member ends. Any other
   * error ends all members.
   */
  async #fail(topic: string, error: SluiceError): Promise<void> {
    const { look } = this.#options;
    const missing = look !== null && error.code === 'kafka_topic_missing';
    const there = missing ? await look().catch(() => null) : null;
    if (there === null || there.includes(topic)) this.#finish.reject(error);
    else await this.#leave(topic);
  }

  async #leave(topic: string): Promise<void> {
    const member = this.#members.get(topic);
    if (!member) return;
    this.#members.delete(topic);
    this.#options.onNotice({
      about: `gone ${topic}`,
      message: words`the topic ${named(topic)} was removed and is no longer read`,
    });
    await member.stop(LEAVING_MS);
    this.#options.onLeft(topic);
  }

  async #lookOut(look: () => Promise<readonly string[]>): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await sleep(this.#options.everyMs ?? 30_000, { signal, ref: false }).catch(() => {});
      // Other code reports a failed lookup.
      const there = signal.aborted ? null : await look().catch(() => null);
      if (there === null || signal.aborted) continue;
      for (const topic of this.#members.keys()) if (!there.includes(topic)) await this.#leave(topic);
      for (const topic of there) if (!this.#members.has(topic) && !signal.aborted) await this.#join(topic);
    }
  }

  /** Starts the member of a new topic. If the topic cannot be read, the other members continue, and the next lookup of
   * topics tries to start this member again.
   */
  async #join(topic: string): Promise<void> {
    const { onNotice } = this.#options;
    try {
      await this.#open(topic, true);
      onNotice({
        about: `new ${topic}`,
        message: words`the topic ${named(topic)} matches topic_pattern and is now read`,
      });
    } catch (error) {
      const failure = asSluiceError(error, 'kafka_failed');
      onNotice({
        about: `new ${topic}`,
        message: words`the topic ${named(topic)} cannot be read: ${withAction(failure)}`,
      });
    }
  }
}
