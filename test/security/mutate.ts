// Changes valid files the way an attacker would: lengths, counts and offsets set to extremes, pieces cut, repeated, moved and spliced.
import { Random } from '../../src/core/random.ts';

/** Random numbers of one changed file: the same for the same seed and number. */
export class Dice {
  readonly #random = new Random();

  constructor(seed: number, index: number) {
    this.#random.seed(seed, index);
  }

  /** A whole number from 0 to `n` - 1. */
  below(n: number): number {
    return Math.floor(this.#random.uniform() * n);
  }
}

const EXTREMES = [
  0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 255, 256, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff,
];
const WIDE = [0n, 1n, -1n, 2n ** 31n, 2n ** 32n, 2n ** 40n, 2n ** 53n, 2n ** 62n, 2n ** 63n - 1n, -(2n ** 63n)];
/** Numbers of LEB128 that are long, and some that never end. */
const VARINTS = [
  'ffffffff07',
  'ffffffff0f',
  'ffffffffffffffff7f',
  'ffffffffffffffffff01',
  '8080808080808080808080808000',
  '80'.repeat(64),
];

/** Makes one to four changes. `others`: further valid files of the same format. */
export function mutate(file: Uint8Array, others: readonly Uint8Array[], dice: Dice): Buffer {
  let bytes: Buffer = Buffer.from(file);
  for (let i = dice.below(4); i >= 0; i--) bytes = changed(bytes, others, dice);
  return bytes;
}

function changed(bytes: Buffer, others: readonly Uint8Array[], dice: Dice): Buffer {
  if (bytes.length === 0) return bytes;
  const at = dice.below(bytes.length);
  const rest = bytes.length - at;
  const piece = 1 + dice.below(Math.min(rest, 64));
  switch (dice.below(12)) {
    case 0:
      bytes[at]! ^= 1 << dice.below(8);
      return bytes;
    case 1:
      bytes[at] = EXTREMES[dice.below(EXTREMES.length)]! & 255;
      return bytes;
    case 2:
      // Numbers are aligned in most formats.
      return written(bytes, at & ~3, 4, (p) => bytes.writeUInt32LE(EXTREMES[dice.below(EXTREMES.length)]!, p));
    case 3:
      return written(bytes, at & ~7, 8, (p) => bytes.writeBigInt64LE(WIDE[dice.below(WIDE.length)]!, p));
    case 4: {
      // Off by a little: what is counted or measured no longer fits.
      const by = [-8, -1, 1, 8][dice.below(4)]!;
      return written(bytes, at & ~3, 4, (p) => bytes.writeInt32LE((bytes.readInt32LE(p) + by) | 0, p));
    }
    case 5:
      return bytes.subarray(0, at);
    case 6:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + piece)]);
    case 7:
      return Buffer.concat([bytes.subarray(0, at + piece), bytes.subarray(at)]);
    case 8: {
      const copy = Buffer.from(bytes.subarray(at, at + piece));
      copy.copy(bytes, dice.below(bytes.length));
      return bytes;
    }
    case 9: {
      const number = Buffer.from(VARINTS[dice.below(VARINTS.length)]!, 'hex');
      return Buffer.concat([bytes.subarray(0, at), number, bytes.subarray(at + 1)]);
    }
    case 10: {
      const other = others[dice.below(others.length)] ?? bytes;
      return Buffer.concat([bytes.subarray(0, at), other.subarray(dice.below(other.length))]);
    }
    default:
      bytes.fill(dice.below(2) === 0 ? 0 : 255, at, at + piece);
      return bytes;
  }
}

function written(bytes: Buffer, at: number, count: number, write: (at: number) => void): Buffer {
  if (at + count <= bytes.length) write(at);
  return bytes;
}

const LONG = [
  'x'.repeat(5000),
  '9'.repeat(400),
  '1e999999',
  '0x7fffffffffffffffffff',
  '&a [*a]',
  '!!binary aaaa',
  '"\\ud800"',
  '\u0000',
  '.inf',
  '~',
  '{',
  '[',
  '- - - - - - - -',
  '? ',
  '|\n  a',
  '>-\n\n\n a',
  '<<: *x',
  '2026-11-24',
  '%YAML 9.9',
  '--- ',
  '... ',
];

/** Text of YAML with lines moved, repeated and nested, scalars replaced, anchors and aliases put in. */
export function mutateText(text: string, dice: Dice): string {
  const lines = text.split('\n');
  for (let i = dice.below(5); i >= 0; i--) {
    const at = dice.below(lines.length);
    const line = lines[at] ?? '';
    const odd = LONG[dice.below(LONG.length)]!;
    switch (dice.below(8)) {
      case 0:
        lines.splice(at, 1);
        break;
      case 1:
        lines.splice(at, 0, ...lines.slice(at, at + 1 + dice.below(20)));
        break;
      case 2:
        lines[at] = line.replace(/:.*$/, `: ${odd}`);
        break;
      case 3:
        lines[at] = `${' '.repeat(dice.below(40))}${line}`;
        break;
      case 4:
        lines[at] = line.replace(/: */, ': &anchor ');
        lines.push(`extra${dice.below(3)}: [*anchor, *anchor, *anchor]`);
        break;
      case 5:
        lines[at] = `${'['.repeat(1 + dice.below(3000))}${line}`;
        break;
      case 6:
        lines[at] = line.slice(0, dice.below(line.length + 1)) + odd + line.slice(dice.below(line.length + 1));
        break;
      default:
        lines[at] = odd;
    }
  }
  return lines.join('\n');
}
