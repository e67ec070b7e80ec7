// CityHash64 (version 1.0) by G. Pike and J. Alakuijala. CatBoost identifies the texts of categories by its lower 32
// bits.

const K0 = 0xc3a5c85c97cb3127n;
const K1 = 0xb492b66fbe98f273n;
const K2 = 0x9ae16a3b2f90404fn;
const K3 = 0xc949d7c7509e6557n;
const MULTIPLIER = 0x9ddfea08eb382d69n;

const u64 = (x: bigint): bigint => BigInt.asUintN(64, x);
const rotate = (x: bigint, by: number): bigint => (by === 0 ? x : u64((x >> BigInt(by)) | (x << BigInt(64 - by))));
const mixed = (x: bigint): bigint => x ^ (x >> 47n);

function combine(low: bigint, high: bigint): bigint {
  const a = mixed(u64((low ^ high) * MULTIPLIER));
  return u64(mixed(u64((high ^ a) * MULTIPLIER)) * MULTIPLIER);
}

/** The hash by which CatBoost identifies a category, as a signed 32-bit number. */
export function catBoostHash(text: string): number {
  return Number(BigInt.asIntN(32, cityHash64(Buffer.from(text))));
}

function cityHash64(s: Buffer): bigint {
  const n = s.length;
  const at = (i: number): bigint => s.readBigUInt64LE(i);
  if (n <= 16) return upTo16(s);
  const length = BigInt(n);
  if (n <= 32) {
    const a = u64(at(0) * K1);
    const b = at(8);
    const c = u64(at(n - 8) * K2);
    const d = u64(at(n - 16) * K0);
    return combine(u64(rotate(u64(a - b), 43) + rotate(c, 30) + d), u64(a + rotate(b ^ K3, 20) - c + length));
  }
  if (n <= 64) {
    const [vf, vs] = half(at(8), at(16), at(24), u64(at(0) + u64((length + at(n - 16)) * K0)));
    const [wf, ws] = half(at(n - 24), at(n - 16), at(n - 8), u64(at(16) + at(n - 32)));
    const r = mixed(u64((vf + ws) * K2 + (wf + vs) * K0));
    return u64(mixed(u64(r * K0 + vs)) * K2);
  }
  let x = at(0);
  let y = at(n - 16) ^ K1;
  let z = at(n - 56) ^ K0;
  let v = weak(s, n - 64, length, y);
  let w = weak(s, n - 32, u64(length * K1), K0);
  z = u64(z + mixed(v[1]) * K1);
  x = u64(rotate(u64(z + x), 39) * K1);
  y = u64(rotate(y, 33) * K1);
  for (let i = 0, left = (n - 1) & ~63; left > 0; i += 64, left -= 64) {
    x = u64(rotate(u64(x + y + v[0] + at(i + 16)), 37) * K1) ^ w[1];
    y = u64(rotate(u64(y + v[1] + at(i + 48)), 42) * K1) ^ v[0];
    z = rotate(z ^ w[0], 33);
    v = weak(s, i, u64(v[1] * K1), u64(x + w[0]));
    w = weak(s, i + 32, u64(z + w[1]), y);
    [x, z] = [z, x];
  }
  return combine(u64(combine(v[0], w[0]) + mixed(y) * K1 + z), u64(combine(v[1], w[1]) + x));
}

function upTo16(s: Buffer): bigint {
  const n = s.length;
  const length = BigInt(n);
  if (n > 8) {
    const [a, b] = [s.readBigUInt64LE(0), s.readBigUInt64LE(n - 8)];
    return combine(a, rotate(u64(b + length), n)) ^ b;
  }
  if (n >= 4) return combine(u64(length + (BigInt(s.readUInt32LE(0)) << 3n)), BigInt(s.readUInt32LE(n - 4)));
  if (n === 0) return K2;
  const y = BigInt(s[0]! + (s[n >> 1]! << 8));
  const z = BigInt(n + (s[n - 1]! << 2));
  return u64(mixed(u64(y * K2) ^ u64(z * K3)) * K2);
}

/** One of the two intermediate sums for a text of 33 to 64 bytes. `a`: initial value. */
function half(second: bigint, third: bigint, z: bigint, a: bigint): [bigint, bigint] {
  const b = rotate(u64(a + z), 52);
  let c = rotate(a, 37);
  let sum = u64(a + second);
  c = u64(c + rotate(sum, 7));
  sum = u64(sum + third);
  return [u64(sum + z), u64(b + rotate(sum, 31) + c)];
}

function weak(s: Buffer, i: number, a: bigint, b: bigint): [bigint, bigint] {
  const [w, x, y, z] = [0, 8, 16, 24].map((o) => s.readBigUInt64LE(i + o)) as [bigint, bigint, bigint, bigint];
  const first = u64(a + w);
  const second = rotate(u64(b + first + z), 21);
  const sum = u64(first + x + y);
  return [u64(sum + z), u64(second + rotate(sum, 44) + first)];
}
