// Bodies of Arrow that are packed as frames of LZ4, as pandas writes Feather. Source: lz4_Frame_format.md and lz4_Block_format.md.
import { EventLoopTurns } from '../../core/event-loop-turns.ts';

const MAGIC = 0x184d2204;
const UNPACKED = 0x80000000;
const SHORTEST_MATCH = 4;
const MORE = 15;

/** Decodes a frame that has as many bytes as `out`; lets others work between its blocks. @throws Error */
export async function decodeLz4Frame(from: Uint8Array, out: Uint8Array): Promise<void> {
  const turns = new EventLoopTurns();
  const view = new DataView(from.buffer, from.byteOffset, from.byteLength);
  if (view.getUint32(0, true) !== MAGIC) throw new Error('a body is no frame of LZ4');
  const flags = view.getUint8(4);
  const [hasBlockSums, hasSize, hasDictionary] = [(flags >> 4) & 1, (flags >> 3) & 1, flags & 1];
  let at = 7 + hasSize * 8 + hasDictionary * 4;
  let filled = 0;
  for (;;) {
    await turns.pass();
    const size = view.getUint32(at, true);
    at += 4;
    if (size === 0) break;
    const end = at + (size & ~UNPACKED);
    if (end > from.length) throw new Error('a frame of LZ4 is cut');
    if (size >= UNPACKED) {
      if (filled + end - at > out.length) throw new Error('a frame of LZ4 has another size than it says');
      out.set(from.subarray(at, end), filled);
      filled += end - at;
    } else filled = decodeBlock(from, at, end, out, filled);
    at = end + hasBlockSums * 4;
  }
  if (filled !== out.length) throw new Error('a frame of LZ4 has another size than it says');
}

/** Matches may lie in the blocks before. */
function decodeBlock(from: Uint8Array, start: number, end: number, out: Uint8Array, filled: number): number {
  let [at, o] = [start, filled];
  while (at < end) {
    const token = from[at++]!;
    let literals = token >> 4;
    if (literals === MORE) for (let more = 255; more === 255; literals += more) more = from[at++]!;
    if (at + literals > end || o + literals > out.length) throw new Error('a block of LZ4 is damaged');
    for (const stop = at + literals; at < stop; ) out[o++] = from[at++]!;
    if (at === end) break;
    const offset = from[at]! | (from[at + 1]! << 8);
    at += 2;
    let match = (token & MORE) + SHORTEST_MATCH;
    if ((token & MORE) === MORE) for (let more = 255; more === 255; match += more) more = from[at++]!;
    if (offset === 0 || offset > o || !(o + match <= out.length)) throw new Error('a block of LZ4 is damaged');
    for (const stop = o + match; o < stop; o++) out[o] = out[o - offset]!;
  }
  return o;
}
