// A number read from bytes is the double that Number() gives, or no number where the grammar of the doors has none.

import { expect, test } from 'vitest';
import { Dictionary, UNKNOWN_WORD, WORD_SLACK } from '../../../src/formats/decode/dictionary.ts';
import { numberAt } from '../../../src/formats/decode/number-bytes.ts';
import { Draw, NUMBERS, RECORDS } from '../../support/decoding.ts';
import fc from '../../support/seeded-fast-check.ts';

const GRAMMAR = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const wanted = (text: string): number => (GRAMMAR.test(text) ? Number(text) : NaN);

/** Read between bytes that would go on with it. */
function read(text: string): number {
  const bytes = Buffer.from(`9${text}9`);
  return numberAt(bytes, 1, bytes.length - 1);
}

/** An `expect` for each of a million texts would take longer than reading them. */
function check(texts: Iterable<string>): void {
  let count = 0;
  const wrong: [text: string, value: number, wanted: number][] = [];
  for (const text of texts) {
    count++;
    const value = read(text);
    if (!Object.is(value, wanted(text)) && wrong.length < 5) wrong.push([text, value, wanted(text)]);
  }
  expect([wrong, count > 0]).toEqual([[], true]);
}

test('the odd ones', () => {
  check(NUMBERS);
});

test('numbers as generated', () => {
  const draw = new Draw(1);
  check(Iterator.from({ next: () => ({ done: false, value: draw.number() }) }).take(RECORDS * 10));
});

function* doubles(): Generator<string> {
  const draw = new Draw(2);
  const bits = new DataView(new ArrayBuffer(8));
  for (let i = 0; i < RECORDS * 5; i++) {
    bits.setUint32(0, draw.uniform() * 2 ** 32);
    bits.setUint32(4, draw.uniform() * 2 ** 32);
    const any = bits.getFloat64(0);
    // Usual sizes, where the power of ten is small.
    const usual = draw.uniform() * 10 ** draw.below(20) * (draw.chance(0.5) ? draw.uniform() : 1e-6);
    for (const value of [any, usual]) {
      if (!Number.isFinite(value)) continue;
      yield String(value);
      yield value.toPrecision(17);
      yield value.toPrecision(16 + draw.below(6));
    }
  }
}

test('doubles of any bits as JavaScript and as C print them', () => {
  check(doubles());
});

function* halves(): Generator<string> {
  const draw = new Draw(3);
  for (let i = 0; i < RECORDS; i++) {
    const low = 2n ** 53n + BigInt(draw.below(2 ** 30)) * BigInt(1 + draw.below(2 ** 22));
    const half = (low / 2n) * 2n + 1n;
    for (const n of [half - 1n, half, half + 1n]) {
      const digits = String(n);
      yield digits;
      for (let point = 1; point < digits.length; point += 5) yield `${digits.slice(0, point)}.${digits.slice(point)}`;
      yield `${digits}e${draw.below(45) - 22}`;
    }
  }
}

test('halfway between two doubles, and just beside', () => {
  check(halves());
});

test('every byte at every place of a number', () => {
  const starts = ['', '-', '1', '12', '1.', '1.5', '.', '1e', '1e+', '1e5', '0'.repeat(20), '1.0000000000000001'];
  // Texts of one byte a letter.
  const bytes = Array.from({ length: 128 }, (_, byte) => String.fromCharCode(byte));
  for (const start of starts) {
    for (const end of ['', '2', '.5', 'e3']) check(bytes.map((byte) => `${start}${byte}${end}`));
  }
});

test('any text', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'0123456789.eE+-_ x'), maxLength: 24 }), (text) => check([text])),
    { numRuns: 20_000 },
  );
});

test('a dictionary finds its words and no others', () => {
  const words = fc.uniqueArray(fc.string({ unit: 'grapheme', maxLength: 14 }), { maxLength: 60 });
  fc.assert(
    fc.property(words, fc.array(fc.string({ unit: 'grapheme', maxLength: 14 })), (known, others) => {
      const dictionary = new Dictionary(known.map((word, i): [string, number] => [word, i - 1]));
      const find = (word: string) => {
        const bytes = new Uint8Array([35, ...Buffer.from(word), 35, 35, 35, 35]);
        return dictionary.find(new DataView(bytes.buffer), 1, bytes.length - WORD_SLACK);
      };
      known.forEach((word, i) => {
        if (word.isWellFormed()) expect(find(word)).toBe(i - 1);
      });
      for (const word of others)
        if (!known.includes(word) && word.isWellFormed()) expect(find(word)).toBe(UNKNOWN_WORD);
    }),
  );
});

test('long words are told apart by what is between their ends', () => {
  const dictionary = new Dictionary([
    ['self_A_employed', 1],
    ['self_B_employed', 2],
    ['12345678', 3],
  ]);
  const find = (word: string) =>
    dictionary.find(new DataView(new Uint8Array([...Buffer.from(word), 0, 0, 0, 0]).buffer), 0, word.length);
  expect(['self_A_employed', 'self_B_employed', '12345678'].map(find)).toEqual([1, 2, 3]);
  expect(['self_C_employed', 'self_A_emplo_ed', '12349678', '123455678'].map(find)).toEqual(
    Array(4).fill(UNKNOWN_WORD),
  );
});

test('the first code of a word stands', () => {
  const dictionary = new Dictionary([
    ['a', -1],
    ['a', 5],
  ]);
  expect(dictionary.find(new DataView(Uint8Array.of(97, 98, 99, 100, 101).buffer), 0, 1)).toBe(-1);
});
