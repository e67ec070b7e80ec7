// Text in the encodings that inputs can be declared to have, by tables of others than those that are tested.
import type { EncodingName } from '../../src/core/input-declaration.ts';

/** Character → byte. Additions of browsers to the tables are omitted: U+0080 to U+009F. */
const tableOf = (name: 'windows-1251' | 'windows-1252') => {
  const decoder = new TextDecoder(name);
  return new Map(
    Array.from({ length: 256 }, (_, byte): [string, number] => [decoder.decode(Uint8Array.of(byte)), byte]).filter(
      ([character]) => !/[\u0080-\u009f]/.test(character),
    ),
  );
};
const TABLES = { 'windows-1251': tableOf('windows-1251'), 'windows-1252': tableOf('windows-1252') };

/** @throws Error for a character that the encoding does not have */
export function encoded(text: string, encoding: EncodingName): Buffer {
  switch (encoding) {
    case 'utf-8':
      return Buffer.from(text);
    case 'latin1':
      if (/[^\0-\u007f\u00a0-\u00ff]/.test(text)) throw new Error('no Latin-1');
      return Buffer.from(text, 'latin1');
    case 'windows-1251':
    case 'windows-1252':
      return Buffer.from(
        Array.from(text, (character) => {
          const byte = TABLES[encoding].get(character);
          if (byte === undefined) throw new Error(`no ${encoding}`);
          return byte;
        }),
      );
    case 'utf-16':
      return Buffer.from(`\ufeff${text}`, 'utf16le');
    case 'utf-16le':
      return Buffer.from(text, 'utf16le');
    case 'utf-16be':
      return Buffer.from(text, 'utf16le').swap16();
  }
}
