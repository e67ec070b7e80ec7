// The requests of a group member to its coordinator: join, sync, heartbeat, commit, leave.
// Stores the identity of the member, but not the state of its partitions.

import { monotonicMs } from '../../../core/clock.ts';
import type { MemberIdentity, MemberOptions, TopicIds } from '../client/kafka-client.ts';
import {
  assign,
  assignInTurn,
  decodeAssignment,
  decodeSubscription,
  EAGER_PROTOCOL,
  encodeAssignment,
  encodeEagerSubscription,
  encodeSubscription,
  PROTOCOL,
  PROTOCOL_TYPE,
} from './assignment.ts';
import type { BrokerCluster } from './broker-cluster.ts';
import type { BrokerConnection } from './broker-connection.ts';
import { hasMoved, isRebalanced, NoConnection, type Refusal, refusedAs } from './broker-failures.ts';
import { heartbeatV4, joinGroupV7, leaveGroupV4, offsetCommitV8, syncGroupV5 } from './kafka-protocol.ts';
import { markedOffsets } from './offset-marks.ts';

/** Time added to the timeout of a join, during which the coordinator waits for other members, ms. */
const ANSWER_MARGIN_MS = 10_000;
const COMMIT_TIMEOUT_MS = 10_000;

export class GroupCoordination {
  readonly #cluster: BrokerCluster;
  readonly #options: MemberOptions;
  #memberId = '';
  #generation = -1;
  #synced = false;
  #eager = false;
  /**
   * Number of unanswered joins. Until the broker has answered a join, it answers no other request on the same
   * connection.
   */
  #joins = 0;
  /** When the coordinator last confirmed the membership, on the monotonic clock, ms. */
  confirmed = Number.NEGATIVE_INFINITY;
  readonly #onNews: () => void;
  #link: BrokerConnection | null = null;

  /** `onNews` is called when the connection for heartbeats has ended. */
  constructor(cluster: BrokerCluster, options: MemberOptions, onNews: () => void) {
    this.#cluster = cluster;
    this.#options = options;
    this.#onNews = onNews;
  }

  get identity(): MemberIdentity {
    return { memberId: this.#memberId, generation: this.#generation, instanceId: this.#options.instanceId };
  }

  /** Whether the coordinator may consider this process a member of the group. */
  get isKnown(): boolean {
    return this.#generation >= 0;
  }

  /**
   * Whether this member has received its partitions of the current generation. Between JoinGroup and SyncGroup, no
   * member may keep partitions of the previous generation.
   */
  get isSynced(): boolean {
    return this.isKnown && this.#synced;
  }

  /**
   * Whether the last generation used the eager protocol, because a member supports only this protocol. All members must
   * then join the next generation without partitions.
   */
  get isEager(): boolean {
    return this.#eager;
  }

  /**
   * Joins the group with the owned partitions. When every member has joined, resolves with the partitions of the new
   * generation. In an eager generation, `giveUp` is called before any member can receive partitions.
   * @throws Refusal | NoConnection
   */
  async join(owned: readonly number[], giveUp: () => void): Promise<readonly number[]> {
    this.#joins += 1;
    try {
      return await this.#join(owned, giveUp);
    } finally {
      this.#joins -= 1;
    }
  }

  async #join(owned: readonly number[], giveUp: () => void): Promise<readonly number[]> {
    const { group, topic, instanceId, sessionTimeoutMs, rebalanceTimeoutMs } = this.#options;
    const held = new Map(owned.length > 0 ? [[topic, owned] as const] : []);
    const metadata = encodeSubscription({ topics: [topic], owned: held, generation: this.#generation });
    // The coordinator chooses the first protocol that every member supports.
    const protocols = [
      { name: PROTOCOL, metadata },
      { name: EAGER_PROTOCOL, metadata: encodeEagerSubscription([topic]) },
    ];
    const ask = async () => {
      const broker = await this.#coordinator('group');
      const timeoutMs = rebalanceTimeoutMs + ANSWER_MARGIN_MS;
      const args = [
        group,
        sessionTimeoutMs,
        rebalanceTimeoutMs,
        this.#memberId,
        instanceId,
        PROTOCOL_TYPE,
        protocols,
      ] as const;
      return { broker, joined: await broker.call(joinGroupV7.api, [...args], { timeoutMs }) };
    };
    const { broker, joined } = await ask().catch((error: unknown) => {
      if (!refusedAs(error, 'MEMBER_ID_REQUIRED')) throw error;
      this.#memberId = ((error as Refusal).response as { memberId: string }).memberId;
      return ask();
    });
    this.#synced = false;
    this.#memberId = joined.memberId;
    this.#generation = joined.generationId;
    this.confirmed = monotonicMs();
    const protocol = joined.protocolName ?? PROTOCOL;
    this.#eager = protocol === EAGER_PROTOCOL;
    if (this.#eager) giveUp();
    const assignments = joined.leader === joined.memberId ? await this.#assignAll(joined.members) : [];
    const { memberId, generation } = this.identity;
    const args = [group, generation, memberId, instanceId, PROTOCOL_TYPE, protocol, assignments] as const;
    const synced = await broker.call(syncGroupV5.api, [...args], { timeoutMs: rebalanceTimeoutMs + ANSWER_MARGIN_MS });
    this.confirmed = monotonicMs();
    this.#synced = true;
    return decodeAssignment(synced.assignment).get(topic) ?? [];
  }

  /** @throws Refusal | NoConnection */
  async heartbeat(): Promise<void> {
    const { group, instanceId, sessionTimeoutMs } = this.#options;
    const { memberId, generation } = this.identity;
    const broker = await this.#coordinator('group');
    await broker.call(heartbeatV4.api, [group, generation, memberId, instanceId], { timeoutMs: sessionTimeoutMs });
    this.confirmed = monotonicMs();
  }

  /** @throws Refusal | NoConnection */
  async commit(offsets: ReadonlyMap<number, bigint>, topicIds?: TopicIds): Promise<void> {
    const { group, topic } = this.#options;
    const { memberId, generation, instanceId } = this.identity;
    await this.#cluster.patiently(
      COMMIT_TIMEOUT_MS,
      async () => {
        const topics = [{ name: topic, partitions: await markedOffsets(this.#cluster, offsets, topicIds) }];
        const broker = await this.#coordinator('aside');
        const args = [group, generation, memberId, instanceId, topics] as const;
        return broker.call(offsetCommitV8.api, [...args], { timeoutMs: COMMIT_TIMEOUT_MS });
      },
      (error) => {
        this.doubt(error);
        return true;
      },
    );
  }

  /** @throws Refusal | NoConnection */
  async leave(timeoutMs: number): Promise<void> {
    if (this.#memberId === '') return;
    const member = { memberId: this.#memberId, groupInstanceId: this.#options.instanceId, reason: null };
    // Uses the existing connection if possible: a new connection would need a TLS handshake and a login during
    // shutdown.
    const broker = await this.#coordinator(this.#joins > 0 ? 'aside' : 'group');
    await broker.call(leaveGroupV4.api, [this.#options.group, [member]], { timeoutMs });
  }

  /** Updates this membership after an error: the coordinator moved, or the member ID or generation is invalid. */
  doubt(error: unknown): void {
    if (hasMoved(error) || error instanceof NoConnection) this.#cluster.forgetCoordinator('group', this.#options.group);
    if (refusedAs(error, 'UNKNOWN_MEMBER_ID') || refusedAs(error, 'FENCED_INSTANCE_ID')) this.#memberId = '';
    if (isRebalanced(error) && !refusedAs(error, 'REBALANCE_IN_PROGRESS')) this.#generation = -1;
  }

  async #coordinator(lane: 'group' | 'aside'): Promise<BrokerConnection> {
    const broker = await this.#cluster.coordinator('group', this.#options.group, lane);
    if (lane === 'group' && broker !== this.#link) {
      this.#link = broker;
      broker.whenClosed(this.#onNews);
    }
    return broker;
  }

  async #assignAll(
    members: readonly { memberId: string; groupInstanceId?: string | null | undefined; metadata: Buffer }[],
  ): Promise<{ memberId: string; assignment: Buffer }[]> {
    const subscriptions = new Map(members.map((m) => [m.memberId, decodeSubscription(m.metadata)]));
    const counts = new Map<string, number>();
    for (const topic of new Set([...subscriptions.values()].flatMap((s) => s.topics))) {
      // If a topic of other members is missing or this member may not read it, those members report the problem.
      const layout = this.#cluster.layout(topic, 0);
      counts.set(
        topic,
        topic === this.#options.topic
          ? (await layout).leaders.length
          : await layout.then(
              (l) => l.leaders.length,
              () => 0,
            ),
      );
    }
    const partitionsOf = (topic: string) => counts.get(topic) ?? 0;
    const named = members.map((m) => ({ ...m, topics: subscriptions.get(m.memberId)!.topics }));
    const assigned = this.#eager ? assignInTurn(named, partitionsOf) : assign(subscriptions, partitionsOf);
    return [...assigned].map(([memberId, assignment]) => ({ memberId, assignment: encodeAssignment(assignment) }));
  }
}
