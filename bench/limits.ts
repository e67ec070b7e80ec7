// What this machine can do at best, on one core: no run is faster than its bytes can be copied, read, hashed and written.
import { createHash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readSync, rmSync, writeSync } from 'node:fs';

/** Bytes a second of wall time. */
export interface Limits {
  copy: number;
  /** Of a file in the page cache. */
  read: number;
  sha256: number;
  /** With the flush to the disk. */
  write: number;
}

const PIECE = 256 * 1024;
const BYTES = 256 * 1024 * 1024;

/** `input` is read, `scratch` written and removed. */
export function limitsOf(input: string, scratch: string): Limits {
  const [from, to] = [Buffer.alloc(BYTES, 1), Buffer.alloc(BYTES, 2)];
  const piece = from.subarray(0, PIECE);
  const pieces = (work: () => void) => () => {
    for (let i = 0; i < BYTES / PIECE; i++) work();
    return BYTES;
  };
  const write = (): number => {
    const fd = openSync(scratch, 'w');
    pieces(() => writeSync(fd, piece))();
    fsyncSync(fd);
    closeSync(fd);
    rmSync(scratch);
    return BYTES;
  };
  const read = (): number => {
    const fd = openSync(input, 'r');
    let bytes = 0;
    for (let n = readSync(fd, to, 0, PIECE, null); n > 0; n = readSync(fd, to, 0, PIECE, null)) bytes += n;
    closeSync(fd);
    return bytes;
  };
  const hash = createHash('sha256');
  return {
    copy: best(() => from.copy(to)),
    read: best(read),
    sha256: best(pieces(() => hash.update(piece))),
    write: best(write),
  };
}

/** The best of three: what others do on the machine only takes away from it. */
function best(work: () => number): number {
  let most = 0;
  for (let i = 0; i < 3; i++) {
    const began = performance.now();
    const bytes = work();
    most = Math.max(most, (bytes * 1000) / (performance.now() - began));
  }
  return most;
}
