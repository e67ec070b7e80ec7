// The Kafka cluster as one client sees it: partition leaders, coordinators, and one connection per broker and purpose.
import { epochMs, monotonicMs, sleep } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import type { KafkaConnection } from '../client/connection.ts';
import type { PartitionRange } from '../client/kafka-client.ts';
import { type BrokerAddress, BrokerConnection, type Wire } from './broker-connection.ts';
import { isPassing, NoConnection, Refusal } from './broker-failures.ts';
import { findCoordinatorV3, listOffsetsV5, metadataV9, metadataV10 } from './kafka-protocol.ts';
import { logIn, wireOf } from './login.ts';

interface TopicLayout {
  /** The leader of each partition, by partition number; -1: the partition currently has no leader. */
  readonly leaders: readonly number[];
  /**
   * Distinguishes the topic from earlier and later topics with the same name. null: the broker cannot verify topic IDs
   * in fetches, so they are not used.
   */
  readonly topicId: string | null;
  /** Time of the query on the monotonic clock, ms. */
  readonly asked: number;
}

type CoordinatorOf = 'group' | 'transaction';
const KEY_TYPES: Readonly<Record<CoordinatorOf, number>> = { group: 0, transaction: 1 };

/**
 * The purpose of a connection. Requests that block need their own connection, because a broker answers the requests of
 * a connection in order.
 */
type ConnectionLane = 'main' | 'group' | 'aside' | `fetch-${number}`;

const FETCH = 1;
const METADATA = 3;
const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 1_000;

export class BrokerCluster {
  readonly #connection: KafkaConnection;
  readonly #wire: Wire;
  readonly #end = new AbortController();
  readonly #open = new Map<string, Promise<BrokerConnection>>();
  readonly #live = new Set<BrokerConnection>();
  readonly #layouts = new Map<string, TopicLayout>();
  readonly #coordinators = new Map<string, number>();
  /** Whether any broker has accepted a connection, and the login if one is configured. */
  reached = false;
  #nodes = new Map<number, BrokerAddress>();
  #id: string | null = null;

  /** @throws SluiceError kafka_config */
  constructor(connection: KafkaConnection) {
    if (connection.brokers.length === 0) throw new SluiceError('kafka_config', 'no broker address is given');
    this.#connection = connection;
    this.#wire = wireOf(connection);
  }

  get signal(): AbortSignal {
    return this.#end.signal;
  }

  /** Closes all connections, including connections that are being opened. Idempotent. */
  destroy(): void {
    this.#end.abort();
    for (const broker of this.#live) broker.destroy(new NoConnection('the client is closed'));
    this.#open.clear();
  }

  /**
   * Returns an existing connection to any broker. If there is none, returns the first connection that can be opened.
   * @throws NoConnection | Refusal of the last attempt
   */
  async any(): Promise<BrokerConnection> {
    for (const [key, open] of this.#open) {
      if (!key.startsWith('main ')) continue;
      const broker = await open.catch(() => null);
      if (broker?.alive && broker.renewAt > epochMs()) return broker;
    }
    let last: unknown = new NoConnection('no broker is known');
    for (const endpoint of this.#candidates()) {
      try {
        return await this.#connect(endpoint, 'main');
      } catch (error) {
        last = error;
        if (!isPassing(error)) throw error;
      }
    }
    throw last;
  }

  /** @throws NoConnection | Refusal */
  async node(id: number, lane: ConnectionLane = 'main'): Promise<BrokerConnection> {
    if (!this.#nodes.has(id)) await this.#metadata([]);
    const endpoint = this.#nodes.get(id);
    if (!endpoint) throw new Refusal('Metadata', ['BROKER_NOT_AVAILABLE']);
    return await this.#connect(endpoint, lane);
  }

  /** @throws NoConnection | Refusal */
  async coordinator(of: CoordinatorOf, key: string, lane: ConnectionLane = 'main'): Promise<BrokerConnection> {
    const name = `${of} ${key}`;
    let id = this.#coordinators.get(name);
    if (id === undefined) {
      const any = await this.any();
      const found = await any.call(findCoordinatorV3.api, [KEY_TYPES[of] as 0 | 1, [key]]);
      const one = found.coordinators[0];
      if (!one) throw new Refusal('FindCoordinator', ['COORDINATOR_NOT_AVAILABLE']);
      id = one.nodeId;
      this.#coordinators.set(name, id);
      this.#nodes.set(id, { host: one.host, port: one.port });
    }
    try {
      return await this.node(id, lane);
    } catch (error) {
      this.forgetCoordinator(of, key);
      throw error;
    }
  }

  forgetCoordinator(of: CoordinatorOf, key: string): void {
    this.#coordinators.delete(`${of} ${key}`);
  }

  /** The metadata of a topic, from the cache if it is at most `maxAgeMs` old. @throws NoConnection | Refusal */
  async layout(topic: string, maxAgeMs = Number.POSITIVE_INFINITY): Promise<TopicLayout> {
    const known = this.#layouts.get(topic);
    if (known && monotonicMs() - known.asked <= maxAgeMs) return known;
    await this.#metadata([topic]);
    return this.#layouts.get(topic)!;
  }

  /** The ID of the cluster; null: the brokers do not report one. @throws NoConnection | Refusal */
  async id(): Promise<string | null> {
    if (this.#id === null) await this.#metadata([]);
    return this.#id;
  }

  /** Whether the broker of a connection can verify the topic ID in fetches. @throws NoConnection | Refusal */
  fetchesById(broker: BrokerConnection): Promise<boolean> {
    return broker.supports(FETCH, 13);
  }

  /** Names of all topics. @throws NoConnection | Refusal */
  async topics(): Promise<readonly string[]> {
    return await this.#metadata(null);
  }

  known(topic: string): TopicLayout | null {
    return this.#layouts.get(topic) ?? null;
  }

  /** Removes a topic from the cache, so that the next call of `layout` queries the cluster. */
  forget(topic: string): void {
    this.#layouts.delete(topic);
  }

  /**
   * Repeats the attempt until it succeeds, a retry cannot succeed, or `patienceMs` have passed. `again` is called after
   * each retryable failure; it returns false to stop retrying.
   * @throws the error of the last attempt
   */
  async patiently<T>(patienceMs: number, attempt: () => Promise<T>, again?: (error: unknown) => boolean): Promise<T> {
    const end = monotonicMs() + patienceMs;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(MAX_PAUSE_MS, pause * 2)) {
      try {
        return await attempt();
      } catch (error) {
        if (!isPassing(error) || monotonicMs() + pause > end || this.signal.aborted) throw error;
        if (again?.(error) === false) throw error;
      }
      await sleep(pause * (0.5 + Math.random() / 2), { signal: this.signal }).catch(() => {});
    }
  }

  /** Fetches the metadata of topics; null: of all topics. Returns the names of the topics that exist. */
  async #metadata(topics: string[] | null): Promise<string[]> {
    const any = await this.any();
    const asked = monotonicMs();
    const ids = (await any.supports(METADATA, 10)) && (await this.fetchesById(any));
    const { api } = ids ? metadataV10 : metadataV9;
    const {
      brokers,
      topics: found,
      clusterId,
    } = await any.call(api, [topics, false]).catch((error: unknown) => {
      // If some partitions have no leader, the metadata of all other partitions is valid.
      const leaderless = error instanceof Refusal && error.ids.every((id) => id === 'LEADER_NOT_AVAILABLE');
      const answer = leaderless ? (error.response as Awaited<ReturnType<typeof metadataV9.api.async>> | null) : null;
      if (!answer) throw error instanceof Refusal ? error.about(topics ?? []) : error;
      return answer;
    });
    this.#nodes = new Map(brokers.map(({ nodeId, host, port }) => [nodeId, { host, port }]));
    this.#id = clusterId ?? null;
    for (const { name, partitions, topicId } of found) {
      const leaders: number[] = Array(partitions.length).fill(-1);
      for (const p of partitions) leaders[p.partitionIndex] = p.leaderId;
      if (typeof name === 'string') this.#layouts.set(name, { leaders, asked, topicId: (ids && topicId) || null });
    }
    return found.flatMap(({ name }) => name ?? []);
  }

  #candidates(): BrokerAddress[] {
    const seeds = this.#connection.brokers.map((address) => {
      const at = address.lastIndexOf(':');
      const host = address.slice(0, at).replace(/^\[|\]$/g, '');
      return { host, port: Number(address.slice(at + 1)) };
    });
    const known = [...this.#nodes.values()].sort(() => Math.random() - 0.5);
    const all = [...known, ...seeds];
    return all.filter((a, i) => all.findIndex((b) => b.host === a.host && b.port === a.port) === i);
  }

  /** Returns the connection for an address and a purpose. Concurrent callers share one connection attempt. */
  #connect(endpoint: BrokerAddress, lane: ConnectionLane): Promise<BrokerConnection> {
    const key = `${lane} ${endpoint.host}:${endpoint.port}`;
    const known = this.#open.get(key);
    if (!known) return this.#renew(key, endpoint);
    return known.then((broker) => {
      if (broker.alive && broker.renewAt > epochMs()) return broker;
      return this.#open.get(key) === known ? this.#renew(key, endpoint, broker) : this.#connect(endpoint, lane);
    });
  }

  /**
   * Replaces the connection `old`, whose login expires soon. If no new connection can be opened, `old` is used until
   * its login expires.
   */
  #renew(key: string, endpoint: BrokerAddress, old: BrokerConnection | null = null): Promise<BrokerConnection> {
    const opening = this.#dial(endpoint).then(
      (fresh) => {
        old?.retire();
        return fresh;
      },
      (error: unknown) => {
        if (!old?.alive || old.expires <= epochMs() || !isPassing(error)) throw error;
        old.renewAt = epochMs() + MAX_PAUSE_MS;
        return old;
      },
    );
    this.#open.set(key, opening);
    const drop = () => {
      if (this.#open.get(key) === opening) this.#open.delete(key);
    };
    opening.then((broker) => broker.whenClosed(drop), drop);
    return opening;
  }

  async #dial(endpoint: BrokerAddress): Promise<BrokerConnection> {
    const broker = await BrokerConnection.open(endpoint, this.#wire, this.signal);
    this.#live.add(broker);
    broker.whenClosed(() => this.#live.delete(broker));
    if (this.signal.aborted) broker.destroy(new NoConnection('the client is closed'));
    if (this.#connection.sasl) await logIn(broker, this.#connection.sasl);
    this.reached = true;
    return broker;
  }
}

const EARLIEST = -2n;
const LATEST = -1n;

const READ_UNCOMMITTED = 0;
const READ_COMMITTED = 1;

/** The queries of a range, in this order, so that `low` ≤ `high` ≤ `end` although records arrive meanwhile. */
const RANGE_QUERIES = [
  { offset: 'low', timestamp: EARLIEST, isolation: READ_UNCOMMITTED },
  { offset: 'high', timestamp: LATEST, isolation: READ_COMMITTED },
  { offset: 'end', timestamp: LATEST, isolation: READ_UNCOMMITTED },
] as const;

/** The ranges of all partitions, queried from their leaders. @throws Refusal | NoConnection */
export async function offsetsOf(cluster: BrokerCluster, topic: string): Promise<ReadonlyMap<number, PartitionRange>> {
  const { leaders } = await cluster.layout(topic, 0);
  if (leaders.includes(-1)) throw new Refusal('Metadata', ['LEADER_NOT_AVAILABLE']);
  const byLeader = Map.groupBy(leaders.keys(), (partition) => leaders[partition]!);
  const found = new Map<number, PartitionRange>();
  const ask = async (leader: number, partitions: readonly number[], query: (typeof RANGE_QUERIES)[number]) => {
    const { offset, timestamp, isolation } = query;
    const broker = await cluster.node(leader);
    const asked = partitions.map((partitionIndex) => ({ partitionIndex, currentLeaderEpoch: -1, timestamp }));
    const { topics } = await broker.call(listOffsetsV5.api, [-1, isolation, [{ name: topic, partitions: asked }]]);
    for (const p of topics[0]?.partitions ?? []) {
      const range = found.get(p.partitionIndex) ?? { low: 0n, high: 0n, end: 0n };
      found.set(p.partitionIndex, { ...range, [offset]: p.offset });
    }
  };
  for (const query of RANGE_QUERIES) {
    await Promise.all([...byLeader].map(([leader, partitions]) => ask(leader, partitions, query)));
  }
  return new Map([...found].sort(([a], [b]) => a - b));
}
