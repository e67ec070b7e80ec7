// Compressed input through every door: all that is in it, however it was put together, and never less without an error.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { compressFrame } from 'lz4-napi';
import { describe, expect, test } from 'vitest';
import { unpackBatch } from '../../src/connectors/kafka/client/codecs.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { fromStream } from '../../src/io/source/byte-source.ts';
import { decompressed } from '../../src/io/source/decompressed.ts';
import { endpoint } from '../../src/runs/endpoint-specs.ts';
import { openSource } from '../../src/runs/endpoints.ts';
import { inChunks } from '../support/blocks.ts';
import { scratch } from '../support/cli.ts';
import { type Container, containersOf } from '../support/containers.ts';
import { predictUrl, type Service, startService } from '../support/service.ts';
import { checkTest, SEED, times } from '../support/tiers.ts';

const CUTS = times('cuts', { quick: 25, check: 25, campaigns: 1000 });
const PLAIN = Buffer.concat([...generatePortfolio({ rows: 40, seed: 12, delimiter: '\t', oddness: 'none' })]);
const CONTAINERS = containersOf(PLAIN);

/** Numbers below `limit`, the same in every run. */
function numbers(seed: number): (limit: number) => number {
  let state = SEED * 7919 + seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

async function all(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(Uint8Array.from(chunk));
  return Buffer.concat(parts);
}

/** The plain bytes that a door finds in packed ones, or null where it refuses them; `chunk`: bytes that come at once. */
type Door = (bytes: Buffer, compression: Container['compression'], chunk: number) => Promise<Buffer | null>;

const refused = () => null;

function file(folder: string): Door {
  const name = path.join(folder, 'in');
  return async (bytes, compression, chunk) => {
    writeFileSync(name, bytes);
    const source = await openSource({ ...endpoint(name, { compression }, 'csv') }, chunk);
    return all(source.chunks).catch(refused).finally(source.close);
  };
}

const stdin: Door = (bytes, compression, chunk) =>
  all(decompressed(fromStream(inChunks(bytes, chunk)).chunks, compression)).catch(refused);

const topic: Door = (bytes, compression) => unpackBatch(bytes, compression).catch(refused);

/** What was scored stands for what was read: as many lines as were answered, the header included. */
async function upload(service: Service): Promise<Door> {
  const lines = PLAIN.toString().split(/(?<=\n)/);
  const whole = (await service.call('POST', predictUrl('csv'), { body: PLAIN })).text;
  return async (bytes, compression) => {
    const headers = { 'content-encoding': compression };
    const { status, text, json } = await service.call('POST', predictUrl('csv'), { body: bytes, headers });
    if (status === 200) {
      expect(whole.startsWith(text)).toBe(true);
      return Buffer.from(lines.slice(0, text.split('\n').length - 1).join(''));
    }
    expect([status, json.code]).toEqual([
      400,
      expect.stringMatching(/^(truncated_input|invalid_content|empty_input)$/),
    ]);
    return json.code === 'empty_input' ? Buffer.alloc(0) : null;
  };
}

const RUBBISH = [
  'x',
  '\0x',
  '\x1f\x8b',
  '\x28\xb5\x2f',
  '\x28\xb5\x2f\xfd',
  '\x50\x2a\x4d\x18\x09\0\0\0',
  'id\tamount\n',
];

/** A cut is an error, unless it leaves what nobody can tell from a whole container: then all that is left is read. */
async function hold(door: Door, { name, compression, bytes, ends }: Container): Promise<void> {
  const draw = numbers(bytes.length);
  expect((await door(bytes, compression, bytes.length))?.equals(PLAIN), name).toBe(true);
  let silent = 0;
  for (let i = 0; i < CUTS; i++) {
    const at = i < bytes.length / 8 && i % 4 === 0 ? bytes.length - 1 - i : draw(bytes.length);
    const got = await door(bytes.subarray(0, at), compression, 1 + draw(600));
    if (got === null) continue;
    const inside = ends.get(at);
    if (inside === undefined || !got.equals(PLAIN.subarray(0, inside))) silent++;
  }
  expect([name, silent]).toEqual([name, 0]);
  for (const rubbish of RUBBISH) {
    const longer = Buffer.concat([bytes, Buffer.from(rubbish, 'latin1')]);
    expect([name, rubbish, await door(longer, compression, 1 + draw(600))]).toEqual([name, rubbish, null]);
  }
  const padded = await door(Buffer.concat([bytes, Buffer.alloc(700)]), compression, 512);
  expect([name, padded?.equals(PLAIN) ?? null]).toEqual([name, compression === 'gzip' ? true : null]);
}

describe('all of it, and a cut or rubbish behind the end is an error', () => {
  test('from a file', async () => {
    const door = file(scratch());
    for (const container of CONTAINERS) await hold(door, container);
  });

  test('from standard input', async () => {
    for (const container of CONTAINERS) await hold(stdin, container);
  });

  test('from batches of a topic', async () => {
    for (const container of CONTAINERS) await hold(topic, container);
  });

  checkTest('from an upload', async () => {
    const door = await upload(await startService());
    for (const container of CONTAINERS) await hold(door, container);
  });
});

test.each(CONTAINERS)('$name: however the bytes come', async ({ compression, bytes }) => {
  for (const chunk of [1, 2, 3, 7, 64, 1000]) {
    const got = await all(decompressed(inChunks(bytes, chunk), compression));
    expect(got.equals(PLAIN), `${chunk}`).toBe(true);
  }
});

test('lz4 batches of several frames: all of them, and a cut or rubbish behind the end is an error', async () => {
  const pieces = [PLAIN.subarray(0, 900), PLAIN.subarray(900, 901), PLAIN.subarray(901)];
  const frames = await Promise.all(pieces.map((piece) => compressFrame(piece)));
  const bytes = Buffer.concat(frames);
  expect((await unpackBatch(bytes, 'lz4')).equals(PLAIN)).toBe(true);
  const ends = new Map([[frames[0]!.length, 900], [frames[0]!.length + frames[1]!.length, 901]]); // biome-ignore format: one line
  let silent = 0;
  for (let at = 0; at < bytes.length; at++) {
    const got = await unpackBatch(bytes.subarray(0, at), 'lz4').catch(refused);
    if (got !== null && !got.equals(PLAIN.subarray(0, ends.get(at) ?? Infinity))) silent++;
    if (got !== null && !ends.has(at)) silent++;
  }
  expect(silent).toBe(0);
  for (const rubbish of ['x', '\0\0\0\0', 'rubbish behind the end']) {
    expect(await unpackBatch(Buffer.concat([bytes, Buffer.from(rubbish)]), 'lz4').catch(refused)).toBe(null);
  }
});
