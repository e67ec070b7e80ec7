// Text of other encodings becomes the same UTF-8 at every cut, and what is no text of them is no text afterwards.
import { isUtf8 } from 'node:buffer';
import { expect, test } from 'vitest';
import { ENCODINGS, type EncodingName } from '../../../src/core/input-declaration.ts';
import { transcoded } from '../../../src/io/source/transcoded.ts';
import { inChunks } from '../../support/blocks.ts';
import { encoded } from '../../support/encodings.ts';
import fc from '../../support/seeded-fast-check.ts';

type Foreign = Exclude<EncodingName, 'utf-8'>;
const FOREIGN = ENCODINGS.filter((e): e is Foreign => e !== 'utf-8');

async function utf8(bytes: Uint8Array, encoding: Foreign, chunk = 65_536): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of transcoded(inChunks(bytes, chunk), encoding)) parts.push(Buffer.from(part));
  return Buffer.concat(parts);
}

const SINGLE = ['latin1', 'windows-1251', 'windows-1252'] as const;

test.each(SINGLE)('%s: every byte is the character of its table, or no text', async (encoding) => {
  const decoder = new TextDecoder(encoding === 'windows-1251' ? encoding : 'windows-1252');
  for (let byte = 0; byte < 256; byte++) {
    const character = encoding === 'latin1' ? String.fromCharCode(byte) : decoder.decode(Uint8Array.of(byte));
    const defined = byte < 0x80 || byte >= 0xa0 || (encoding !== 'latin1' && character.charCodeAt(0) > 0xff);
    // In front stands what makes an input longer than its head.
    const out = (await utf8(Buffer.concat([Buffer.alloc(80, 'a'), Buffer.from([byte])]), encoding)).subarray(80);
    if (defined) expect(out.toString(), `byte ${byte}`).toBe(character);
    else expect(isUtf8(out), `byte ${byte}`).toBe(false);
  }
});

test('windows-1252 leaves five bytes undefined, windows-1251 one, latin1 thirty-two', async () => {
  const undefinedIn = async (encoding: Foreign) => {
    const found: number[] = [];
    for (let byte = 0x80; byte < 0x100; byte++) {
      if (!isUtf8(await utf8(Buffer.from([97, 97, 97, byte]), encoding))) found.push(byte);
    }
    return found;
  };
  expect(await undefinedIn('windows-1252')).toEqual([0x81, 0x8d, 0x8f, 0x90, 0x9d]);
  expect(await undefinedIn('windows-1251')).toEqual([0x98]);
  expect(await undefinedIn('latin1')).toEqual(Array.from({ length: 32 }, (_, i) => 0x80 + i));
});

const POOLS: Record<Foreign, readonly string[]> = {
  latin1: [...'aé ÿ\n,;"ß0'],
  'windows-1251': [...'aЖяЁ№€\n,0„“'],
  'windows-1252': [...'a€é„“\n,0Ÿž'],
  'utf-16': [...'a東😀é\n,߿ࠀ\uffff'],
  'utf-16le': [...'a東😀é\n,߿ࠀ\uffff'],
  'utf-16be': [...'a東😀é\n,߿ࠀ\uffff'],
};

test.each(FOREIGN)('%s: any text, cut anywhere', async (encoding) => {
  const text = fc.array(fc.constantFrom(...POOLS[encoding]), { minLength: 4, maxLength: 120 });
  await fc.assert(
    fc.asyncProperty(text, fc.constantFrom(1, 2, 3, 5, 64, 65, 1000), async (characters, chunk) => {
      // An input that begins with zeros or with blanks in front of markup is looked at for what it is.
      const whole = `aaaa${characters.join('')}`;
      expect((await utf8(encoded(whole, encoding), encoding, chunk)).toString()).toBe(whole);
    }),
    { numRuns: 60 },
  );
});

test.each<[what: string, encoding: Foreign, bytes: readonly number[]]>([
  ['a second half of a pair alone', 'utf-16be', [0, 97, 0xdc, 0, 0, 98]],
  ['a first half alone', 'utf-16be', [0, 97, 0xd8, 0, 0, 98]],
  ['two first halves', 'utf-16be', [0, 97, 0xd8, 0, 0xd8, 0, 0xdc, 0]],
  ['a first half at the end', 'utf-16le', [97, 0, 0, 0xd8]],
])('%s is no text, whatever the cut; its neighbours are', async (_, encoding, bytes) => {
  const outs = await Promise.all([1, 2, 3, 100].map((chunk) => utf8(Uint8Array.from(bytes), encoding, chunk)));
  for (const out of outs) {
    expect(out).toEqual(outs[0]);
    expect(isUtf8(out)).toBe(false);
    expect(out[0]).toBe(97);
  }
});

test.each<[what: string, encoding: Foreign, bytes: Buffer, code: string, message: string]>([
  [
    'half a unit at the end',
    'utf-16le',
    Buffer.from([97, 0, 98]),
    'truncated_input',
    'the input ends in the middle of a character',
  ],
  [
    'no byte order mark',
    'utf-16',
    encoded('a,b', 'utf-16le'),
    'invalid_encoding',
    'declare encoding: utf-16le or utf-16be',
  ],
  [
    'the other order',
    'utf-16be',
    encoded('a,b', 'utf-16'),
    'invalid_encoding',
    'the byte order mark of the input is that of utf-16le',
  ],
  ['UTF-16 under latin1', 'latin1', encoded('a,b', 'utf-16'), 'invalid_encoding', 'declare encoding: utf-16'],
  [
    'UTF-8 under windows-1252',
    'windows-1252',
    Buffer.from('\ufeffa'),
    'invalid_encoding',
    'do not declare an encoding',
  ],
  ['gzip under latin1', 'latin1', Buffer.from([0x1f, 0x8b, 8, 0]), 'foreign_content', 'compressed with gzip'],
])('%s is refused', async (_, encoding, bytes, code, message) => {
  for (const chunk of [1, 2, 100]) {
    await expect(utf8(bytes, encoding, chunk)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
  }
});

test('nothing is nothing in every encoding', async () => {
  for (const encoding of FOREIGN) expect((await utf8(Buffer.alloc(0), encoding)).length).toBe(0);
});
