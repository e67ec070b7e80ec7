// A group member as a state machine: joins, sends heartbeats, reads its partitions, and reconnects after failures.
import { inBackground } from '../../../core/async.ts';
import { monotonicMs, sleep, startTimer, stopTimer } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import { isHopeless } from '../client/failures.ts';
import type {
  GroupMember,
  MemberEvents,
  MemberIdentity,
  MemberOptions,
  MemberState,
  TopicIds,
} from '../client/kafka-client.ts';
import { BrokerCluster } from './broker-cluster.ts';
import { failure, isMissing, isPassing, isRebalanced, NoConnection, refusedAs } from './broker-failures.ts';
import { Fetcher } from './fetcher.ts';
import { GroupCoordination } from './group-coordination.ts';

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;
/** Maximum time to wait for the coordinator's response when leaving, ms. */
const LEAVE_MS = 1_000;
/** How long brokers must report a topic as missing before it is treated as missing, ms. */
const MISSING_MS = 5_000;
/**
 * Time limit of the first join if only some brokers answer, ms. During this time, another broker can become the
 * coordinator.
 */
const FIRST_JOIN_MS = 60_000;

/**
 * | state | what happens | then |
 * | --- | --- | --- |
 * | connecting | looks up the coordinator; confirms an earlier generation by a heartbeat | joined, else joining |
 * | joining | JoinGroup and SyncGroup with the owned partitions, which are still read; without partitions in an eager group | joined |
 * | joined | sends heartbeats; looks for new partitions | joining when the group changes or partitions were revoked |
 * | gone | owns no partitions; pauses for a growing time | connecting |
 * | failed, stopped | all connections are closed | — |
 *
 * A single loop performs all steps, so that they never run concurrently. Other methods only wake the loop.
 */
export class PlatformaticMember implements GroupMember {
  readonly #options: MemberOptions;
  readonly #events: MemberEvents;
  readonly #cluster: BrokerCluster;
  readonly #membership: GroupCoordination;
  readonly #fetcher: Fetcher;
  readonly #first = Promise.withResolvers<void>();
  #state: MemberState = 'connecting';
  #running: Promise<void> | null = null;
  #stopping: Promise<void> | null = null;
  /** Ends the current wait of the loop. */
  #wake: (() => void) | null = null;
  /** Whether the next wait of the loop must end immediately. */
  #woken = false;
  #owned: readonly number[] = [];
  /** The partitions of the last generation, remembered while the membership is uncertain. */
  #held: readonly number[] = [];
  #partitions = 0;
  #began = 0;
  #joinAgain = false;
  #everJoined = false;
  #failures = 0;
  #missingSince: number | null = null;

  constructor(options: MemberOptions, events: MemberEvents) {
    this.#options = options;
    this.#events = events;
    const { connection, topic, fetchBytes, fetchWaitMs, fetchPaceMs } = options;
    this.#cluster = new BrokerCluster(connection);
    this.#membership = new GroupCoordination(this.#cluster, options, () => this.#wakeUp());
    this.#first.promise.catch(() => {});
    this.#fetcher = new Fetcher(
      this.#cluster,
      { topic, fetchBytes, fetchWaitMs, fetchPaceMs, rack: connection.rack ?? '' },
      {
        records: (partition, records, next, highWatermark) => events.records(partition, records, next, highWatermark),
        skipped: (partition, next) => events.skipped(partition, next),
        lost: (partition, error) => this.#lost(partition, error),
        failed: (error) => this.#fail(failure(error, `reading the topic ${topic} failed`)),
      },
    );
  }

  get state(): MemberState {
    return this.#state;
  }

  get identity(): MemberIdentity | null {
    return this.#state === 'joined' ? this.#membership.identity : null;
  }

  start(): Promise<void> {
    if (this.#stopping) return Promise.reject(new SluiceError('kafka_failed', 'the member is stopped'));
    if (!this.#running) {
      this.#began = monotonicMs();
      this.#running = this.#run();
    }
    return this.#first.promise;
  }

  startAt(partition: number, offset: bigint, topicId: string | null = null): void {
    this.#fetcher.startAt(partition, offset, topicId);
  }

  pause(partitions: readonly number[]): void {
    this.#fetcher.pause(partitions);
  }

  resume(partitions: readonly number[]): void {
    this.#fetcher.resume(partitions);
  }

  async isMember(): Promise<boolean> {
    const { confirmed } = this.#membership;
    const age = monotonicMs() - confirmed;
    // While this member joins, the coordinator does not answer heartbeats. So the last confirmation is valid for the
    // session timeout.
    if (this.#state === 'joining') return this.#membership.isKnown && age < this.#options.sessionTimeoutMs;
    if (this.#state !== 'joined') return false;
    if (age <= this.#options.heartbeatIntervalMs) return true;
    try {
      await this.#membership.heartbeat();
      return this.#state === 'joined';
    } catch (error) {
      this.#wakeUp();
      return refusedAs(error, 'REBALANCE_IN_PROGRESS');
    }
  }

  async commit(offsets: ReadonlyMap<number, bigint>, topicIds?: TopicIds): Promise<void> {
    const { group } = this.#options;
    const during = `committing offsets of the group ${group} failed`;
    if (this.#state !== 'joined') throw new SluiceError('kafka_rebalanced', `${during}: the member is ${this.#state}`);
    try {
      await this.#membership.commit(offsets, topicIds);
    } catch (error) {
      this.#wakeUp();
      // A member that fails closes its connections. The request did not fail because the broker is unreachable.
      if (this.state === 'failed') {
        throw new SluiceError('kafka_rebalanced', `${during}: the member is failed`, { cause: error });
      }
      throw failure(error, during);
    }
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const failed = this.#state === 'failed';
    this.#first.reject(new SluiceError('kafka_failed', 'the member was stopped before it had joined'));
    this.#enter('stopping', null);
    this.#wakeUp();
    this.#fetcher.stop();
    if (!failed) await this.#leave();
    this.#cluster.destroy();
    await this.#running;
    this.#enter('stopped', null);
  }

  /** Never rejects. */
  async #leave(): Promise<void> {
    const late = new AbortController();
    const left = this.#membership.leave(LEAVE_MS).catch(() => {});
    await Promise.race([left, sleep(LEAVE_MS, { signal: late.signal }).catch(() => {})]);
    late.abort();
  }

  get #over(): boolean {
    return this.#stopping !== null || this.#state === 'failed';
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    while (!this.#over) {
      try {
        if (this.#membership.isSynced && !this.#joinAgain) await this.#comeBack();
        else await this.#join();
        await this.#stay();
      } catch (error) {
        if (!this.#over) await this.#recover(error);
      }
    }
  }

  async #join(): Promise<void> {
    const { topic } = this.#options;
    this.#enter('joining', null);
    // The partitions are counted again, so that a change that the leader already knows does not cause another rebalance
    // later.
    this.#partitions = (await this.#cluster.layout(topic, 0)).leaders.length;
    if (this.#membership.isEager) this.#letGo();
    const given = await this.#membership.join(this.#owned, () => this.#letGo());
    if (this.#over) return;
    const revoked = this.#owned.filter((p) => !given.includes(p));
    this.#joinAgain = revoked.length > 0;
    if (revoked.length > 0) {
      this.#fetcher.remove(revoked);
      this.#events.revoked(revoked);
    }
    const kept = given.filter((p) => this.#owned.includes(p));
    this.#take(given, kept);
  }

  /** After a short outage: continues the generation if a heartbeat confirms it. */
  async #comeBack(): Promise<void> {
    if (this.#state === 'joined') return;
    await this.#cluster.layout(this.#options.topic, 0);
    await this.#membership.heartbeat();
    if (!this.#over) this.#take(this.#held, []);
  }

  #take(given: readonly number[], kept: readonly number[]): void {
    const added = given.filter((p) => !kept.includes(p));
    this.#owned = given;
    this.#held = given;
    this.#fetcher.add(added);
    this.#failures = 0;
    this.#missingSince = null;
    this.#everJoined = true;
    this.#enter('joined', null);
    this.#first.resolve();
    this.#events.assigned({ added, kept });
  }

  /** Sends heartbeats and looks for new partitions until the group changes. @throws Refusal | NoConnection */
  async #stay(): Promise<void> {
    const { heartbeatIntervalMs, metadataMaxAgeMs, topic } = this.#options;
    let looked = monotonicMs();
    while (!this.#joinAgain && !this.#over) {
      await this.#wait(heartbeatIntervalMs);
      if (this.#over) return;
      await this.#beat();
      if (monotonicMs() - looked < metadataMaxAgeMs || this.#over) continue;
      looked = monotonicMs();
      const layout = await this.#cluster
        .layout(topic, metadataMaxAgeMs / 2)
        .catch((error: unknown) => this.#unlooked(error));
      if (!layout) continue;
      this.#fetcher.verify(layout.topicId);
      if (layout.leaders.length !== this.#partitions) this.#joinAgain = true;
    }
  }

  /**
   * Sends a heartbeat. If the coordinator moved or the connection broke, retries before the membership is treated as
   * uncertain.
   */
  async #beat(): Promise<void> {
    try {
      await this.#membership.heartbeat();
    } catch (error) {
      if (this.#over || !isPassing(error)) throw error;
      this.#membership.doubt(error);
      if (error instanceof NoConnection) return await this.#membership.heartbeat();
      const patience = this.#options.sessionTimeoutMs / 3;
      await this.#cluster.patiently(
        patience,
        () => this.#membership.heartbeat(),
        (again) => {
          this.#membership.doubt(again);
          return true;
        },
      );
    }
  }

  get #mayStillJoin(): boolean {
    return this.#cluster.reached && monotonicMs() - this.#began < FIRST_JOIN_MS;
  }

  #unlooked(error: unknown): null {
    if (isPassing(error)) return null;
    throw error;
  }

  async #recover(error: unknown): Promise<void> {
    const { topic, group, instanceId } = this.#options;
    this.#membership.doubt(error);
    if (refusedAs(error, 'FENCED_INSTANCE_ID')) {
      const who = `another member of the group ${group} uses the instance id ${instanceId}`;
      return this.#fail(new SluiceError('kafka_instance_taken', who, { cause: error }));
    }
    if (refusedAs(error, 'REBALANCE_IN_PROGRESS')) {
      this.#joinAgain = true;
      return;
    }
    const told = failure(error, `reading the topic ${topic} in the group ${group} failed`);
    this.#missingSince = isMissing(error) ? (this.#missingSince ?? monotonicMs()) : null;
    const patient = isMissing(error) && this.#everJoined && monotonicMs() - this.#missingSince! < MISSING_MS;
    const early = !this.#everJoined && error instanceof NoConnection && !this.#mayStillJoin;
    if ((isHopeless(told) && !patient) || early) return this.#fail(told);
    this.#letGo();
    if (isRebalanced(error)) {
      this.#events.restarting(told);
      return;
    }
    this.#enter('gone', told);
    this.#events.log?.({ level: 'warn', source: 'member', message: told.message, detail: { topic, groupId: group } });
    this.#events.restarting(told);
    const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.#failures++, 10));
    if (!this.#over) await this.#wait(pause * (0.5 + Math.random() / 2));
    if (!this.#over) this.#enter('connecting', null);
  }

  #letGo(): void {
    if (this.#owned.length === 0) return;
    this.#fetcher.remove(this.#owned);
    this.#owned = [];
    this.#events.revoked(null);
  }

  /** Revokes and assigns the partition again, so that its lease determines a new start offset. */
  #lost(partition: number, error: SluiceError): void {
    if (this.#over || !this.#owned.includes(partition)) return;
    this.#events.restarting(error);
    this.#fetcher.remove([partition]);
    this.#events.revoked([partition]);
    this.#fetcher.add([partition]);
    this.#events.assigned({ added: [partition], kept: this.#owned.filter((p) => p !== partition) });
  }

  #fail(error: SluiceError): void {
    if (this.#over) return;
    this.#enter('failed', error);
    this.#wakeUp();
    this.#fetcher.stop();
    this.#first.reject(error);
    // Other members need not wait for the session timeout if this member leaves immediately.
    inBackground('leaving a group', () => this.#leave().finally(() => this.#cluster.destroy()));
    if (this.#everJoined) this.#events.failed(error);
  }

  #enter(state: MemberState, cause: SluiceError | null): void {
    if (this.#state === state && state !== 'connecting') return;
    this.#state = state;
    this.#events.state?.(state, cause);
  }

  #wakeUp(): void {
    this.#woken = true;
    this.#wake?.();
  }

  /** Waits for `ms` milliseconds, or until `#wake` is called. Never rejects. */
  async #wait(ms: number): Promise<void> {
    if (!this.#woken) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = startTimer(resolve, ms);
      this.#wake = resolve;
      await promise;
      stopTimer(timer);
      this.#wake = null;
    }
    this.#woken = false;
  }
}
