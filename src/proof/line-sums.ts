// Sums over the lines of a block, of which 24 bytes are kept: they name a line that was changed, deleted, doubled or swapped without
// the file as it was. They are no proof against intent, which are the digests.

/**
 * Constants of the hash of a line: keys of the first eight words, what each eight words more add to them, and multipliers at the end.
 * Keys are odd and what is added is even, so that none ever is 0.
 */
export const LINE_HASH = {
  keys: [0x1e37, 0x45eb, 0x62b3, 0x27d5, 0x5a4d, 0x1657, 0x32dd, 0x7849],
  next: [0x4a7c, 0x2656, 0x172a, 0x5ab6, 0x3c6e, 0x6d2a, 0x0f34, 0x4e92],
  mix: [0xff51afd7ed558ccdn, 0xc4ceb9fe1a85ec53n, 0xd6e8feb86659fd93n],
} as const;

const LF = 0x0a;
const STEP = 16;
const u64 = (n: bigint): bigint => BigInt.asUintN(64, n);

/** S0 = Σ h, S1 = Σ k·h and S2 = Σ k²·h over lines k = 1, 2, … with the hashes h; modulo 2^64. */
export interface LineSums {
  lines: number;
  s0: bigint;
  s1: bigint;
  s2: bigint;
}

export const NO_LINES: Readonly<LineSums> = { lines: 0, s0: 0n, s1: 0n, s2: 0n };

/**
 * The hash of one line, with its line feed if it has one. Its words of 16 bits, little-endian and signed, the last 16 bytes filled with
 * zeros, are each multiplied with a key of their own and added up in four sums of 32 bits, pairs of them in turn; the sums and the
 * length are mixed. So one word that differs always shows. This is the reference; `LineSummer` has the same in WebAssembly.
 */
export function lineHash(line: Uint8Array): bigint {
  const padded = new Uint8Array(Math.ceil(line.length / STEP) * STEP);
  padded.set(line);
  const words = new Int16Array(padded.buffer);
  const keys = Int16Array.from(LINE_HASH.keys);
  const sums = new Int32Array(4);
  for (let i = 0; i < words.length; i++) {
    const at = i % 8;
    sums[at >> 1]! += words[i]! * keys[at]!;
    keys[at]! += LINE_HASH.next[at]!;
  }
  const [even, odd] = new BigUint64Array(sums.buffer);
  const [x, y, z] = LINE_HASH.mix;
  let h = u64(even! * x) ^ u64((odd! ^ BigInt(line.length)) * y);
  h = u64((h ^ (h >> 32n)) * z);
  return h ^ (h >> 29n);
}

/** The sums of lines that begin with line k = 1. */
export function sumHashes(hashes: Iterable<bigint>): LineSums {
  let [k, s0, s1, s2] = [0n, 0n, 0n, 0n];
  for (const h of hashes) {
    k++;
    s0 += h;
    s1 += k * h;
    s2 += k * k * h;
  }
  return { lines: Number(k), s0: u64(s0), s1: u64(s1), s2: u64(s2) };
}

/** Lines of a text, each with its line feed; the last may have none. */
export function* linesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let from = 0; from < bytes.length; ) {
    const found = bytes.indexOf(LF, from);
    const to = found < 0 ? bytes.length : found + 1;
    yield bytes.subarray(from, to);
    from = to;
  }
}

/** 48 hexadecimal digits; nothing for no line. */
export const sumsText = ({ lines, s0, s1, s2 }: LineSums): string =>
  lines === 0 ? '' : [s0, s1, s2].map((n) => n.toString(16).padStart(16, '0')).join('');

/** `lines` and a text of `sumsText`. @throws SyntaxError: it is none */
export function sumsFrom(text: string, lines: number): LineSums {
  const [s0, s1, s2] = [0, 16, 32].map((at) => (text === '' ? 0n : BigInt(`0x${text.slice(at, at + 16)}`)));
  return { lines, s0: s0!, s1: s1!, s2: s2! };
}
