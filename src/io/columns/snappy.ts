// Snappy's raw format, unpacked. The library does it a byte at a time; here what is long is copied at once.
// Source: https://github.com/google/snappy/blob/main/format_description.txt

/** Shorter pieces are copied in a loop: a call takes as long. */
const LONG = 32;

const damaged = (): Error => new Error('a page is no Snappy');

/**
 * Fills `out` with the unpacked bytes.
 * @throws Error: what is packed is damaged, or has another size
 */
export function unpackSnappy(packed: Uint8Array, out: Uint8Array): void {
  const end = packed.length;
  // In front stands how many bytes it becomes, as a varint: that is known.
  let p = packed.findIndex((byte) => byte < 128) + 1;
  if (p === 0) throw damaged();
  let o = 0;
  while (p < end) {
    const tag = packed[p++]!;
    let length = (tag >> 2) + 1;
    if ((tag & 3) === 0) {
      if (length > 60) {
        const bytes = length - 60;
        if (p + bytes > end) throw damaged();
        length = littleEndian(packed, p, bytes) + 1;
        p += bytes;
      }
      if (p + length > end || o + length > out.length) throw damaged();
      if (length >= LONG) out.set(packed.subarray(p, p + length), o);
      else for (let i = 0; i < length; i++) out[o + i] = packed[p + i]!;
      p += length;
    } else {
      const bytes = (tag & 3) === 3 ? 4 : tag & 3;
      if (p + bytes > end) throw damaged();
      let back = littleEndian(packed, p, bytes);
      p += bytes;
      if (bytes === 1) {
        length = ((tag >> 2) & 7) + 4;
        back += (tag >> 5) << 8;
      }
      if (back === 0 || back > o || o + length > out.length) throw damaged();
      if (back >= length && length >= LONG) out.copyWithin(o, o - back, o - back + length);
      // What is copied may begin with what the copy itself has written.
      else for (let i = 0; i < length; i++) out[o + i] = out[o - back + i]!;
    }
    o += length;
  }
  if (o !== out.length) throw damaged();
}

function littleEndian(bytes: Uint8Array, at: number, count: number): number {
  let value = bytes[at]!;
  if (count > 1) value |= bytes[at + 1]! << 8;
  if (count > 2) value |= bytes[at + 2]! << 16;
  return count > 3 ? value + bytes[at + 3]! * 2 ** 24 : value;
}
