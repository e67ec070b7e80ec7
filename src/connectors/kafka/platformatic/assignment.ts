// Messages of the consumer protocol, and the cooperative-sticky assignment of the Java clients (KIP-429), which the group leader computes.
// A partition that moves is assigned to no member until its owner has released it. The eager assignment of kafkajs is
// used while a member supports only this assignment.

export const PROTOCOL_TYPE = 'consumer';
export const PROTOCOL = 'cooperative-sticky';
export const EAGER_PROTOCOL = 'RoundRobinAssigner';

export interface Subscription {
  readonly topics: readonly string[];
  /** The partitions that the member owned when it joined. */
  readonly owned: ReadonlyMap<string, readonly number[]>;
  /** The generation in which the member owned these partitions; -1: none. */
  readonly generation: number;
}

type Assignment = ReadonlyMap<string, readonly number[]>;

const VERSION = 2;

export function encodeSubscription({ topics, owned, generation }: Subscription): Buffer {
  const parts = [int16(VERSION), int32(topics.length), ...topics.map(string), int32(-1)];
  parts.push(...encodeMap(owned), int32(generation));
  return Buffer.concat(parts);
}

/** Encodes a subscription without owned partitions, in the format of kafkajs. */
export function encodeEagerSubscription(topics: readonly string[]): Buffer {
  return Buffer.concat([int16(0), int32(topics.length), ...topics.map(string), int32(0)]);
}

export function decodeSubscription(bytes: Buffer): Subscription {
  const at = new Reading(bytes);
  const version = at.int16();
  const topics = Array.from({ length: Math.max(0, at.int32()) }, () => at.string());
  at.skip(Math.max(0, at.int32()));
  const owned = version >= 1 ? at.map() : new Map<string, number[]>();
  return { topics, owned, generation: version >= 2 ? at.int32() : -1 };
}

export function encodeAssignment(assignment: Assignment): Buffer {
  return Buffer.concat([int16(0), ...encodeMap(assignment), int32(-1)]);
}

/** Decodes an assignment; no bytes mean an empty assignment. */
export function decodeAssignment(bytes: Buffer): Assignment {
  if (bytes.length === 0) return new Map();
  const at = new Reading(bytes);
  at.int16();
  return at.map();
}

/**
 * The partitions of every member, evenly distributed. As far as possible, partitions stay with their owners. A
 * partition that moves is omitted first. Its owner then rejoins without the partition, and the next assignment includes
 * it.
 */
export function assign(
  members: ReadonlyMap<string, Subscription>,
  partitionsOf: (topic: string) => number,
): Map<string, Map<string, number[]>> {
  const result = new Map([...members.keys()].map((id) => [id, new Map<string, number[]>()]));
  const load = new Map([...members.keys()].map((id) => [id, 0]));
  const topics = new Set([...members.values()].flatMap((m) => m.topics));
  for (const topic of [...topics].sort()) {
    const readers = [...members].filter(([, m]) => m.topics.includes(topic)).map(([id]) => id);
    const count = partitionsOf(topic);
    const owners = ownersOf(topic, count, members);
    for (const [id, partitions] of spread(readers.sort(), count, owners, load)) {
      load.set(id, load.get(id)! + partitions.length);
      const given = partitions.filter((p) => (owners.get(p) ?? id) === id).sort((a, b) => a - b);
      if (given.length > 0) result.get(id)!.set(topic, given);
    }
  }
  return result;
}

interface EagerMember {
  readonly memberId: string;
  readonly groupInstanceId?: string | null | undefined;
  readonly topics: readonly string[];
}

/**
 * Assigns partitions round robin to members sorted by instance name; members without a name come last, sorted by ID.
 * For a single topic, the result is the same as in kafkajs/assigner.ts, so members with either client can lead the
 * group.
 */
export function assignInTurn(
  members: readonly EagerMember[],
  partitionsOf: (topic: string) => number,
): Map<string, Map<string, number[]>> {
  const rank = (m: EagerMember) => (m.groupInstanceId ? `0${m.groupInstanceId}` : `1${m.memberId}`);
  const order = [...members].sort((a, b) => (rank(a) < rank(b) ? -1 : 1));
  const result = new Map(order.map((m) => [m.memberId, new Map<string, number[]>()]));
  let turn = 0;
  for (const topic of new Set(order.flatMap((m) => m.topics))) {
    const readers = order.filter((m) => m.topics.includes(topic));
    for (let partition = 0; partition < partitionsOf(topic); partition++) {
      const share = result.get(readers[turn++ % readers.length]!.memberId)!;
      share.set(topic, [...(share.get(topic) ?? []), partition]);
    }
  }
  return result;
}

/**
 * The owner of each partition. If two members claim a partition, the claim with the later generation is valid. If both
 * have the same generation, neither claim is valid.
 */
function ownersOf(topic: string, count: number, members: ReadonlyMap<string, Subscription>): Map<number, string> {
  const owners = new Map<number, { id: string | null; generation: number }>();
  for (const [id, { owned, generation, topics }] of members) {
    if (!topics.includes(topic)) continue;
    for (const partition of owned.get(topic) ?? []) {
      const other = owners.get(partition);
      if (partition >= count || (other && other.generation > generation)) continue;
      owners.set(partition, { id: other?.generation === generation ? null : id, generation });
    }
  }
  return new Map([...owners].flatMap(([p, { id }]) => (id === null ? [] : [[p, id] as const])));
}

function spread(
  readers: readonly string[],
  count: number,
  owners: ReadonlyMap<number, string>,
  load: ReadonlyMap<string, number>,
): Map<string, number[]> {
  const taken = new Map(readers.map((id) => [id, [] as number[]]));
  if (readers.length === 0) return taken;
  const least = Math.floor(count / readers.length);
  let larger = count % readers.length;
  const free: number[] = [];
  const beyond: { id: string; partition: number }[] = [];
  for (let partition = 0; partition < count; partition++) {
    const id = owners.get(partition);
    if (id === undefined) free.push(partition);
    else if (taken.get(id)!.length < least) taken.get(id)!.push(partition);
    else beyond.push({ id, partition });
  }
  for (const { id, partition } of beyond) {
    if (larger > 0 && taken.get(id)!.length === least) {
      taken.get(id)!.push(partition);
      larger--;
    } else free.push(partition);
  }
  // Members with fewer partitions of other topics are served first.
  const hungry = [...readers].sort((a, b) => load.get(a)! - load.get(b)!);
  for (const id of hungry) {
    while (taken.get(id)!.length < least) taken.get(id)!.push(free.shift()!);
  }
  for (const id of hungry) {
    if (free.length > 0 && taken.get(id)!.length === least) taken.get(id)!.push(free.shift()!);
  }
  return taken;
}

function int16(n: number): Buffer {
  const bytes = Buffer.allocUnsafe(2);
  bytes.writeInt16BE(n);
  return bytes;
}

function int32(n: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32BE(n);
  return bytes;
}

function string(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([int16(bytes.length), bytes]);
}

const encodeMap = (map: ReadonlyMap<string, readonly number[]>): Buffer[] => [
  int32(map.size),
  ...[...map].flatMap(([topic, partitions]) => [string(topic), int32(partitions.length), ...partitions.map(int32)]),
];

class Reading {
  #position = 0;
  readonly #from: Buffer;

  constructor(from: Buffer) {
    this.#from = from;
  }

  int16(): number {
    this.#position += 2;
    return this.#from.readInt16BE(this.#position - 2);
  }

  int32(): number {
    this.#position += 4;
    return this.#from.readInt32BE(this.#position - 4);
  }

  skip(bytes: number): void {
    this.#position += bytes;
  }

  string(): string {
    const size = this.int16();
    this.skip(size);
    return this.#from.toString('utf8', this.#position - size, this.#position);
  }

  map(): Map<string, number[]> {
    const map = new Map<string, number[]>();
    for (let n = this.int32(); n > 0; n--) {
      const topic = this.string();
      map.set(
        topic,
        Array.from({ length: this.int32() }, () => this.int32()),
      );
    }
    return map;
  }
}
