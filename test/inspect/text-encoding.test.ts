// Encodings are guessed from bytes, with the confidence that the bytes allow.
import { expect, test } from 'vitest';
import { guessEncoding } from '../../src/inspect/text-encoding.ts';
import { encoded } from '../support/encodings.ts';

const GERMAN = 'Müller;Straße;Köln\nSchäfer;Weg;Bonn\n';
const RUSSIAN = 'Иванов;Москва\nПетрова;Тверь\nЁлкина;Орёл\n';

test.each<[what: string, bytes: Buffer, value: string, confidence: string]>([
  ['ASCII', Buffer.from('a;b\n1;2\n'), 'utf-8', 'high'],
  ['UTF-8', Buffer.from(GERMAN), 'utf-8', 'high'],
  ['a byte order mark', Buffer.from('\ufeffa;b\n'), 'utf-8', 'high'],
  ['UTF-16 with a mark', encoded('a;b\n', 'utf-16'), 'utf-16', 'high'],
  ['UTF-16 without a mark', encoded('amount;term\n1;2\n', 'utf-16le'), 'utf-16le', 'high'],
  ['UTF-16, big endian', encoded('amount;term\n1;2\n', 'utf-16be'), 'utf-16be', 'high'],
  ['Western European', encoded(GERMAN, 'windows-1252'), 'windows-1252', 'medium'],
  ['Cyrillic', encoded(RUSSIAN, 'windows-1251'), 'windows-1251', 'high'],
  ['little Cyrillic', encoded('a;Орёл\n', 'windows-1251'), 'windows-1251', 'medium'],
  ['damaged ASCII words', Buffer.from('a;ONLI\xff\xfeNE\nb;BRAN\xff\xfeCH\n'.repeat(20), 'latin1'), 'utf-8', 'medium'],
  ['Cyrillic with some damage', Buffer.concat([encoded(RUSSIAN, 'windows-1251'), Buffer.from('ON\xff\xfeE\n', 'latin1')]), 'windows-1251', 'high'],
  ['a byte that windows-1252 lacks', Buffer.from([97, 0x81, 97, 10]), 'windows-1251', 'medium'],
  ['a byte that windows-1251 lacks', Buffer.concat([encoded(RUSSIAN, 'windows-1251'), Buffer.from([0x98])]), 'windows-1252', 'medium'],
  ['UTF-8 with one broken line', Buffer.concat([Buffer.from(GERMAN.repeat(9)), Buffer.from([0xe4, 10])]), 'utf-8', 'medium'],
])('%s', (_, bytes, value, confidence) => {
  expect(guessEncoding(bytes, true)).toMatchObject({ value, confidence, reason: expect.stringMatching(/\w/) });
}); // biome-ignore format: one line each

test('a character that the end of the sample cuts off is not an error', () => {
  const bytes = Buffer.from(GERMAN).subarray(0, Buffer.from('Müller;Straße;Köln\nSchä').length - 1);
  expect(guessEncoding(bytes, false)).toMatchObject({ value: 'utf-8', confidence: 'high' });
  expect(guessEncoding(bytes, true)).not.toMatchObject({ confidence: 'high' });
});
