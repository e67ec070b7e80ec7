// Two requests in versions that kafkajs lacks: offsets of a transaction with the member they are of, and committed offsets that no
// open transaction can move any more (KIP-447). Format: https://kafka.apache.org/protocol, "flexible versions".
import type { MemberIdentity } from '../client/kafka-client.ts';

interface Encoder {
  writeInt8(n: number): Encoder;
  writeInt16(n: number): Encoder;
  writeInt32(n: number): Encoder;
  writeInt64(n: unknown): Encoder;
  writeBoolean(b: boolean): Encoder;
  writeUVarInt(n: number): Encoder;
  writeUVarIntString(text: string | null): Encoder;
}

interface Decoder {
  readInt16(): number;
  readInt32(): number;
  readInt64(): { toString(): string };
  readUVarIntString(): string | null;
  readUVarInt(): number;
  readBytes(n: number): Buffer;
}

interface TopicOffsets {
  topic: string;
  partitions: readonly { partition: number; offset?: unknown; metadata?: string | null }[];
}

interface Definition {
  versions: readonly string[];
  protocol(of: { version: number }): (args: never) => unknown;
}

const TXN_OFFSET_COMMIT = 28;
const OFFSET_FETCH = 9;
const TXN_OFFSET_COMMIT_VERSION = 3;
const OFFSET_FETCH_VERSION = 7;
/** No tagged fields: behind the head of a request or an answer, behind each structure. */
const NO_TAGS = 0;
const NO_LEADER_EPOCH = -1;

/**
 * kafkajs's definitions of both requests with one more version each. Whose offsets a list of topics has, and whether stable ones are
 * asked for, is looked up by the list itself: it is all that passes through every layer of kafkajs.
 */
export function flexible(
  require: NodeJS.Require,
  requests: Readonly<Record<'TxnOffsetCommit' | 'OffsetFetch', Definition>>,
  { memberOf, stable }: { memberOf: WeakMap<object, MemberIdentity>; stable: WeakSet<object> },
): Readonly<Record<'TxnOffsetCommit' | 'OffsetFetch', Definition>> {
  const wire = {
    Encoder: require('kafkajs/src/protocol/encoder') as new () => Encoder,
    Decoder: require('kafkajs/src/protocol/decoder') as new (bytes: Buffer) => Decoder,
  };
  const parseCommit = require('kafkajs/src/protocol/requests/txnOffsetCommit/v0/response').parse;
  const parseFetch = require('kafkajs/src/protocol/requests/offsetFetch/v2/response').parse;
  return {
    TxnOffsetCommit: withVersion(
      requests.TxnOffsetCommit,
      TXN_OFFSET_COMMIT_VERSION,
      txnOffsetCommit(wire, memberOf, parseCommit),
    ),
    OffsetFetch: withVersion(requests.OffsetFetch, OFFSET_FETCH_VERSION, offsetFetch(wire, stable, parseFetch)),
  };
}

/** Whether the brokers of `versions` know both: then one transaction may hold the offsets of several partitions. */
export const fencesByGeneration = (versions: Readonly<Record<number, { maxVersion: number } | undefined>>): boolean =>
  (versions[TXN_OFFSET_COMMIT]?.maxVersion ?? 0) >= TXN_OFFSET_COMMIT_VERSION &&
  (versions[OFFSET_FETCH]?.maxVersion ?? 0) >= OFFSET_FETCH_VERSION;

function withVersion(known: Definition, version: number, make: (args: never) => unknown): Definition {
  return {
    versions: [...known.versions, String(version)],
    protocol: (of) =>
      of.version === version ? make : known.protocol({ version: Math.min(of.version, lastOf(known)) }),
  };
}

const lastOf = (known: Definition): number => Math.max(...known.versions.map(Number));

interface Wire {
  Encoder: new () => Encoder;
  Decoder: new (bytes: Buffer) => Decoder;
}

function txnOffsetCommit({ Encoder, Decoder }: Wire, memberOf: WeakMap<object, MemberIdentity>, parse: unknown) {
  return (args: {
    transactionalId: string;
    groupId: string;
    producerId: unknown;
    producerEpoch: number;
    topics: readonly TopicOffsets[];
  }) => {
    const member = memberOf.get(args.topics);
    const encode = async () => {
      const to = new Encoder()
        .writeInt8(NO_TAGS)
        .writeUVarIntString(args.transactionalId)
        .writeUVarIntString(args.groupId)
        .writeInt64(args.producerId)
        .writeInt16(args.producerEpoch)
        .writeInt32(member?.generation ?? -1)
        .writeUVarIntString(member?.memberId ?? '')
        .writeUVarIntString(member?.instanceId ?? null);
      writeTopics(to, args.topics, ({ partition, offset, metadata }) =>
        to
          .writeInt32(partition)
          .writeInt64(offset)
          .writeInt32(NO_LEADER_EPOCH)
          .writeUVarIntString(metadata ?? null)
          .writeInt8(NO_TAGS),
      );
      return to.writeInt8(NO_TAGS);
    };
    const decode = async (bytes: Buffer) => {
      const from = new Decoder(bytes);
      skipTags(from);
      const clientSideThrottleTime = from.readInt32();
      const topics = readTopics(from, () => ({ partition: from.readInt32(), errorCode: from.readInt16() }));
      return { throttleTime: 0, clientSideThrottleTime, topics };
    };
    const head = { apiKey: TXN_OFFSET_COMMIT, apiVersion: TXN_OFFSET_COMMIT_VERSION, apiName: 'TxnOffsetCommit' };
    return { request: { ...head, encode }, response: { decode, parse } };
  };
}

function offsetFetch({ Encoder, Decoder }: Wire, stable: WeakSet<object>, parse: unknown) {
  return (args: { groupId: string; topics: readonly TopicOffsets[] }) => {
    const encode = async () => {
      const to = new Encoder().writeInt8(NO_TAGS).writeUVarIntString(args.groupId);
      to.writeUVarInt(args.topics.length + 1);
      for (const { topic, partitions } of args.topics) {
        to.writeUVarIntString(topic).writeUVarInt(partitions.length + 1);
        for (const { partition } of partitions) to.writeInt32(partition);
        to.writeInt8(NO_TAGS);
      }
      // Not for a consumer's own question, whose answer is not used: waiting for another's transaction would crash it.
      return to.writeBoolean(stable.has(args.topics)).writeInt8(NO_TAGS);
    };
    const decode = async (bytes: Buffer) => {
      const from = new Decoder(bytes);
      skipTags(from);
      const clientSideThrottleTime = from.readInt32();
      const responses = readTopics(from, () => {
        const partition = from.readInt32();
        const offset = from.readInt64().toString();
        from.readInt32();
        return { partition, offset, metadata: from.readUVarIntString(), errorCode: from.readInt16() };
      });
      return { throttleTime: 0, clientSideThrottleTime, responses, errorCode: from.readInt16() };
    };
    const head = { apiKey: OFFSET_FETCH, apiVersion: OFFSET_FETCH_VERSION, apiName: 'OffsetFetch' };
    return { request: { ...head, encode }, response: { decode, parse } };
  };
}

function writeTopics(
  to: Encoder,
  topics: readonly TopicOffsets[],
  partition: (one: TopicOffsets['partitions'][number]) => void,
): void {
  to.writeUVarInt(topics.length + 1);
  for (const { topic, partitions } of topics) {
    to.writeUVarIntString(topic).writeUVarInt(partitions.length + 1);
    for (const one of partitions) partition(one);
    to.writeInt8(NO_TAGS);
  }
}

function readTopics<T>(from: Decoder, partition: () => T): { topic: string; partitions: T[] }[] {
  return readArray(from, () => {
    const topic = from.readUVarIntString() ?? '';
    const partitions = readArray(from, () => {
      const one = partition();
      skipTags(from);
      return one;
    });
    skipTags(from);
    return { topic, partitions };
  });
}

function readArray<T>(from: Decoder, one: () => T): T[] {
  const items: T[] = [];
  for (let left = from.readUVarInt() - 1; left > 0; left--) items.push(one());
  return items;
}

function skipTags(from: Decoder): void {
  for (let left = from.readUVarInt(); left > 0; left--) {
    from.readUVarInt();
    from.readBytes(from.readUVarInt());
  }
}
