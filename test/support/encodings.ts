// Text in the encodings that inputs can be declared to have, by tables of others than those that are tested.
import type { EncodingName } from '../../src/core/input-declaration.ts';

const WINDOWS = new TextDecoder('windows-1252');
/** Character → byte. What browsers add to the table is left out: U+0080 to U+009F are no characters of it. */
const TO_WINDOWS = new Map(
  Array.from({ length: 256 }, (_, byte): [string, number] => [WINDOWS.decode(Uint8Array.of(byte)), byte]).filter(
    ([character]) => !/[\u0080-\u009f]/.test(character),
  ),
);

/** @throws Error for a character that the encoding does not have */
export function encoded(text: string, encoding: EncodingName): Buffer {
  switch (encoding) {
    case 'utf-8':
      return Buffer.from(text);
    case 'latin1':
      if (/[^\0-\u007f\u00a0-\u00ff]/.test(text)) throw new Error('no Latin-1');
      return Buffer.from(text, 'latin1');
    case 'windows-1252':
      return Buffer.from(
        Array.from(text, (character) => {
          const byte = TO_WINDOWS.get(character);
          if (byte === undefined) throw new Error('no windows-1252');
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
