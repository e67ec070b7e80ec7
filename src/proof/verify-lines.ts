// Reads a file against the marks of its blocks, in bounded memory, and names the lines that are not what they were. After a block of another
// length it finds where the next one begins.
import { ByteDigest, type Digest, type Mark } from './byte-witness.ts';
import { type HashedLines, hashLines, LineSummer } from './line-sum-kernel.ts';
import { type LineSums, sumsFrom, sumsText } from './line-sums.ts';
import { type Damage, locateDamage } from './locate-damage.ts';

/** What is wrong with blocks `block`..`last`. */
export interface BlockDamage {
  block: number;
  last: number;
  /** null: more than one thing, which sums cannot tell apart. */
  damage: readonly Damage[] | null;
  /** What stands there now. */
  text: Buffer;
}

export interface LinesChecked {
  /** Of what was read. */
  digest: Digest;
  blocks: readonly BlockDamage[];
  /** Bytes behind the last block are not what they were. */
  tail: boolean;
}

/** Blocks among which the next whole one is looked for. */
const LOOK_AHEAD = 4;
/** Bytes beyond them. */
const SLACK = 64 * 1024;

/** The bytes at hand. */
class Window {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #digest = new ByteDigest();
  bytes: Buffer = Buffer.alloc(0);
  ended = false;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  get digest(): Digest {
    return this.#digest.digest;
  }

  /** Reads until there are `n` bytes, or no more. */
  async ensure(n: number): Promise<void> {
    const pieces = [this.bytes];
    let length = this.bytes.length;
    while (length < n && !this.ended) {
      const next = await this.#chunks.next();
      if (next.done) {
        this.ended = true;
        break;
      }
      this.#digest.add(next.value);
      // Whoever reads may reuse the chunk.
      pieces.push(Buffer.from(next.value));
      length += next.value.length;
    }
    if (pieces.length > 1) this.bytes = Buffer.concat(pieces);
  }

  drop(n: number): void {
    this.bytes = this.bytes.subarray(n);
  }

  async rest(): Promise<number> {
    let left = this.bytes.length;
    for (this.bytes = Buffer.alloc(0); !this.ended; this.drop(this.bytes.length)) {
      await this.ensure(1);
      left += this.bytes.length;
    }
    return left;
  }
}

/** `content` null: only its blocks are known, up to the end of the last. @throws what `chunks` throw */
export async function verifyLines(
  chunks: AsyncIterable<Uint8Array>,
  marks: readonly Mark[],
  content: Digest | null,
): Promise<LinesChecked> {
  const window = new Window(chunks);
  const summer = new LineSummer();
  const blocks: BlockDamage[] = [];
  const ends = marks.map((m) => m.end);
  const bytesOf = (b: number): number => ends[b]! - (b === 0 ? 0 : ends[b - 1]!);
  for (let b = 0; b < marks.length; b++) {
    const { lines, sums } = marks[b]!;
    await window.ensure(bytesOf(b));
    if (window.bytes.length >= bytesOf(b)) {
      summer.add(window.bytes.subarray(0, bytesOf(b)));
      const found = summer.take();
      if (found.lines === lines && sumsText(found) === sums) {
        window.drop(bytesOf(b));
        continue;
      }
    }
    const ahead = Math.min(marks.length, b + 1 + LOOK_AHEAD);
    await window.ensure((ends[ahead - 1] ?? 0) - (ends[b - 1] ?? 0) + SLACK);
    const { damage, last, bytes } = damageAt(window, marks, b, bytesOf(b));
    blocks.push({ block: b, last, damage, text: Buffer.from(window.bytes.subarray(0, bytes)) });
    window.drop(bytes);
    b = last;
  }
  const tail = await window.rest();
  const { digest } = window;
  const sound = content === null ? tail === 0 : digest.sha256 === content.sha256 && digest.bytes === content.bytes;
  const due = content === null ? 0 : content.bytes - (ends.at(-1) ?? 0);
  return { digest, blocks, tail: !sound && (blocks.length === 0 || tail !== due) };
}

interface Found {
  damage: readonly Damage[] | null;
  last: number;
  bytes: number;
}

/** `bytes`: how many the block had. */
function damageAt(window: Window, marks: readonly Mark[], block: number, bytes: number): Found {
  const listed = hashLines(window.bytes);
  // A line at the end of the window may go on behind it.
  const lines = window.ended ? listed.hashes.length : listed.hashes.length - 1;
  const { lines: expected, sums } = marks[block]!;
  const before = sumsFrom(sums, expected);
  const endOf = (line: number): number => (line === 0 ? 0 : listed.ends[line - 1]!);
  const inPlace = atItsPlace(window.bytes, before, bytes);
  for (const count of [expected, expected - 1, expected + 1]) {
    if (count < 0 || count > lines) continue;
    const damage = locateDamage(before, listed.hashes.subarray(0, count));
    if (damage !== null && damage.length > 0) return { damage, last: block, bytes: endOf(count) };
  }
  if (inPlace) return inPlace;
  const next = nextWhole(listed, lines, marks, block);
  if (next) return { damage: null, last: next.block - 1, bytes: endOf(next.line) };
  return { damage: null, last: block, bytes: Math.min(bytes, window.bytes.length) };

  /** A block that does not end with a line is looked at in the bytes that it had. */
  function atItsPlace(text: Buffer, sums: LineSums, length: number): Found | null {
    if (text.length < length || text[length - 1] === 0x0a) return null;
    const damage = locateDamage(sums, hashLines(text.subarray(0, length)).hashes);
    return damage === null || damage.length === 0 ? null : { damage, last: block, bytes: length };
  }
}

/** The first block behind this one that is whole, and before which line it begins. */
function nextWhole(
  { hashes }: HashedLines,
  lines: number,
  marks: readonly Mark[],
  block: number,
): { block: number; line: number } | null {
  const [p0, p1, p2] = [new BigUint64Array(lines + 1), new BigUint64Array(lines + 1), new BigUint64Array(lines + 1)];
  for (let i = 0; i < lines; i++) {
    const k = BigInt(i + 1);
    p0[i + 1] = p0[i]! + hashes[i]!;
    p1[i + 1] = p1[i]! + k * hashes[i]!;
    p2[i + 1] = p2[i]! + k * k * hashes[i]!;
  }
  const u64 = (n: bigint): bigint => BigInt.asUintN(64, n);
  for (let b = block + 1; b < Math.min(marks.length, block + 1 + LOOK_AHEAD); b++) {
    const { lines: count, sums } = marks[b]!;
    if (count === 0) continue;
    const wanted = sumsFrom(sums, count);
    for (let at = 0; at + count <= lines; at++) {
      const to = at + count;
      const s0 = u64(p0[to]! - p0[at]!);
      if (s0 !== wanted.s0) continue;
      const shift = BigInt(at);
      const [raw1, raw2] = [p1[to]! - p1[at]!, p2[to]! - p2[at]!];
      const s1 = u64(raw1 - shift * s0);
      if (s1 === wanted.s1 && u64(raw2 - 2n * shift * raw1 + shift * shift * s0) === wanted.s2)
        return { block: b, line: at };
    }
  }
  return null;
}
