// Decodes Parquet's hybrid run-length and bit-packed encoding incrementally, because a page may have a million values.

/** Maximum width in bits of a value that a single 32-bit load contains, whatever the position of its first bit. */
const ONE_LOAD = 25;
/** Maximum width in bits for which two 32-bit loads contain eight values. */
const EIGHT_IN_TWO = 8;

export class RunDecoder {
  #view: DataView<ArrayBufferLike> = new DataView(new ArrayBuffer(0));
  #at = 0;
  #end = 0;
  #width = 0;
  /**
   * Number of remaining values in the current run. If the run is bit-packed, they start at bit `#bit` of byte `#at`.
   */
  #left = 0;
  #packed = false;
  #value = 0;
  #bit = 0;

  /** Starts to decode values of `width` bits in bytes `start` to `end - 1`. */
  reset(bytes: Uint8Array, start: number, end: number, width: number): void {
    if (width > 32 || start > end || end > bytes.length) throw new Error('a run lies outside its page');
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#at = start;
    this.#end = end;
    this.#width = width;
    this.#left = 0;
    this.#packed = false;
    this.#bit = 0;
  }

  /** Starts to decode a single bit-packed run of 1-bit values without a header, lowest bit first. */
  resetPacked(bytes: Uint8Array, start: number, end: number): void {
    this.reset(bytes, start, end, 1);
    this.#packed = true;
    this.#left = (end - start) * 8;
  }

  /** Whether the next `count` values all equal `value`; if so, skips them. */
  skipAll(value: number, count: number): boolean {
    if (this.#left === 0) this.#next();
    if (this.#packed || this.#value !== value || this.#left < count) return false;
    this.#left -= count;
    return true;
  }

  /** Reads the next `count` values. @throws Error if there are fewer values */
  fill(out: Int32Array, count: number): void {
    if (this.#width === 0) {
      out.fill(0, 0, count);
      return;
    }
    for (let o = 0; o < count; ) {
      if (this.#left === 0) this.#next();
      const n = Math.min(count - o, this.#left);
      if (this.#packed) this.#unpack(out, o, n);
      else out.fill(this.#value, o, o + n);
      this.#left -= n;
      o += n;
    }
  }

  #next(): void {
    // Runs may be empty.
    while (this.#left === 0) this.#begin();
  }

  #begin(): void {
    this.#bit = 0;
    let header = 0;
    for (let shift = 0; ; shift += 7) {
      if (this.#at >= this.#end || shift > 28) throw new Error('a page ends before its values');
      const c = this.#view.getUint8(this.#at++);
      header |= (c & 127) << shift;
      if (c < 128) break;
    }
    header >>>= 0;
    this.#packed = (header & 1) === 1;
    if (this.#packed) {
      this.#left = (header >>> 1) * 8;
      if (this.#width * (header >>> 1) > this.#end - this.#at + this.#width)
        throw new Error('a bit-packed run is cut off');
    } else {
      this.#left = header >>> 1;
      this.#value = 0;
      const bytes = (this.#width + 7) >> 3;
      if (this.#at + bytes > this.#end) throw new Error('a page ends before its values');
      for (let i = 0; i < bytes; i++) this.#value |= this.#view.getUint8(this.#at++) << (8 * i);
    }
  }

  #unpack(out: Int32Array, from: number, count: number): void {
    const [view, width, base] = [this.#view, this.#width, this.#at];
    let bit = this.#bit;
    const mask = width === 32 ? -1 : (1 << width) - 1;
    /** Last position at which four bytes can be loaded. */
    const last = view.byteLength - 4;
    const to = from + count;
    let o = from;
    if (width <= EIGHT_IN_TWO) {
      for (; o < to && (bit & 7) !== 0; o++, bit += width) out[o] = this.#bits(base, bit, width);
      const groups = eightByEight(out, o, to, { view, at: base + (bit >> 3), last, width });
      o += groups * 8;
      bit += groups * 8 * width;
    }
    if (width <= ONE_LOAD) {
      for (; o < to; o++, bit += width) {
        const p = base + (bit >> 3);
        if (p > last) break;
        out[o] = (view.getInt32(p, true) >>> (bit & 7)) & mask;
      }
    }
    for (; o < to; o++, bit += width) out[o] = this.#bits(base, bit, width);
    this.#at += bit >> 3;
    this.#bit = bit & 7;
  }

  /**
   * Reads a value byte by byte, for positions at which four bytes cannot be loaded. Bytes after the page count as 0,
   * because some writers truncate their last run.
   */
  #bits(base: number, bit: number, width: number): number {
    let value = 0;
    for (let have = 0; have < width; ) {
      const p = base + ((bit + have) >> 3);
      const shift = (bit + have) & 7;
      const byte = p < this.#end ? this.#view.getUint8(p) >>> shift : 0;
      const n = Math.min(8 - shift, width - have);
      value |= (byte & ((1 << n) - 1)) << have;
      have += n;
    }
    return value;
  }
}

interface Packed {
  view: DataView<ArrayBufferLike>;
  /** Position of the first value. `last`: last position at which four bytes can be loaded. */
  at: number;
  last: number;
  /** Bits of a value. */
  width: number;
}

/** Unpacks groups of eight values. A group takes `width` bytes. Returns the number of groups. */
function eightByEight(out: Int32Array, from: number, to: number, { view, at, last, width }: Packed): number {
  const mask = (1 << width) - 1;
  /**
   * Byte and bit offset of the fifth value in its group. If the width is odd, the fifth value starts in the middle of a
   * byte.
   */
  const [half, shift] = [(4 * width) >> 3, (4 * width) & 7];
  const [two, three] = [2 * width, 3 * width];
  let groups = 0;
  for (let o = from, p = at; o + 8 <= to && p + half <= last; o += 8, p += width, groups++) {
    const low = view.getInt32(p, true);
    const high = view.getInt32(p + half, true) >>> shift;
    out[o] = low & mask;
    out[o + 1] = (low >>> width) & mask;
    out[o + 2] = (low >>> two) & mask;
    out[o + 3] = (low >>> three) & mask;
    out[o + 4] = high & mask;
    out[o + 5] = (high >>> width) & mask;
    out[o + 6] = (high >>> two) & mask;
    out[o + 7] = (high >>> three) & mask;
  }
  return groups;
}
