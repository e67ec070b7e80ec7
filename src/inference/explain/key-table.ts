// What belongs to a key, both whole numbers: a hash table without objects, for look-ups that cost less than what is looked up.

const FIRST_ROOM = 8;
/** 2^32 divided by the golden ratio: neighbouring keys lie far apart (Knuth, The Art of Computer Programming 3, 6.4). */
const GOLDEN = 0x9e3779b1 | 0;

export class KeyTable {
  #size = 0;
  /** Pairs of a key and what belongs to it + 1; 0: the place is free. At most half of the places are taken. */
  #places = new Int32Array(2 * FIRST_ROOM);
  #shift = 32 - Math.log2(FIRST_ROOM);

  get size(): number {
    return this.#size;
  }

  /** The next key makes the table twice as large. */
  get full(): boolean {
    return (this.#size + 1) * 4 > this.#places.length;
  }

  get bytes(): number {
    return this.#places.byteLength;
  }

  /** What belongs to a key, or -1. Keys are 32-bit integers. */
  find(key: number): number {
    const places = this.#places;
    const last = places.length - 2;
    for (let at = (Math.imul(key, GOLDEN) >>> this.#shift) << 1; ; at = (at + 2) & last) {
      const found = places[at + 1]!;
      if (found === 0 || places[at] === key) return found - 1;
    }
  }

  /** For a key that is not there yet; `value` is not negative. */
  add(key: number, value: number): void {
    if (this.full) this.#grow();
    this.#size++;
    this.#put(key, value + 1);
  }

  clear(): void {
    if (this.#size > 0) this.#places.fill(0);
    this.#size = 0;
  }

  #put(key: number, found: number): void {
    const places = this.#places;
    const last = places.length - 2;
    let at = (Math.imul(key, GOLDEN) >>> this.#shift) << 1;
    while (places[at + 1] !== 0) at = (at + 2) & last;
    places[at] = key;
    places[at + 1] = found;
  }

  #grow(): void {
    const old = this.#places;
    this.#places = new Int32Array(2 * old.length);
    this.#shift--;
    for (let at = 0; at < old.length; at += 2) if (old[at + 1] !== 0) this.#put(old[at]!, old[at + 1]!);
  }
}
