// Cuts text into records through the real cutter, at any chunk and slab size.
import { deepStrictEqual } from 'node:assert';
import { SlabPool } from '../../src/core/slabs.ts';
import { cutBlocks } from '../../src/io/source/block-cutter.ts';
import type { Chunks } from '../../src/io/source/byte-source.ts';
import { DelimitedScanner } from '../../src/io/source/delimited-scanner.ts';
import type { RecordScanner } from '../../src/io/source/record-scanner.ts';

export interface CutRecord {
  text: string;
  fault: number;
  line: number;
  byte: number;
  row: number;
}

export interface CutSetup {
  chunk: number;
  slab: number;
  maxRecordBytes?: number;
  delimiter?: string;
  header?: boolean;
  /** Makes one that has its kernel from so many bytes on. Default: delimited text. */
  scanner?: (kernelBytes: number) => RecordScanner;
}

export async function* inChunks(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  // One buffer for all chunks: whoever keeps a chunk beyond its turn is found out.
  const buffer = Buffer.alloc(size);
  for (let at = 0; at < bytes.length; at += size) {
    const n = Math.min(size, bytes.length - at);
    buffer.set(bytes.subarray(at, at + n));
    yield buffer.subarray(0, n);
  }
}

/** The same as a file has them: read to where they are wanted. */
export function readInPieces(bytes: Uint8Array, size: number): Chunks {
  let at = 0;
  return {
    [Symbol.asyncIterator]: () => inChunks(bytes, size),
    readInto: async (target) => {
      const n = Math.min(size, target.length, bytes.length - at);
      target.set(bytes.subarray(at, at + n));
      at += n;
      return n;
    },
  };
}

interface Cut {
  records: CutRecord[];
  header: string | null;
}

/** In chunks, in pieces, and with the kernel from the first byte on, which have to give the same. */
export async function cutAll(input: Uint8Array | string, setup: CutSetup): Promise<Cut> {
  const bytes = typeof input === 'string' ? Buffer.from(input) : input;
  if (setup.scanner) return cutWithKernel(bytes, setup, setup.scanner);
  const delimiter = (setup.delimiter ?? ',').charCodeAt(0);
  const scanner = (kernelBytes: number, quote?: number) =>
    new DelimitedScanner(delimiter, setup.maxRecordBytes ?? 1 << 20, quote, kernelBytes);
  const cut = await cutChunks(inChunks(bytes, setup.chunk), setup, scanner(Infinity));
  for (const chunks of [inChunks(bytes, setup.chunk), readInPieces(bytes, setup.chunk)]) {
    deepStrictEqual(await cutChunks(chunks, setup, scanner(0), true), cut);
  }
  deepStrictEqual(
    await cutChunks(inChunks(bytes, setup.chunk), setup, scanner(0, -1), true),
    await cutChunks(inChunks(bytes, setup.chunk), setup, scanner(Infinity, -1)),
  );
  return cut;
}

/** With the kernel and without, which have to give the same records or the same error. */
async function cutWithKernel(
  bytes: Uint8Array,
  setup: CutSetup,
  scanner: NonNullable<CutSetup['scanner']>,
): Promise<Cut> {
  const outcome = async (chunks: Chunks, kernelBytes: number, together: boolean) => {
    const cut = cutChunks(chunks, setup, scanner(kernelBytes), together);
    return await cut.catch((error: Error) => ({ error, message: error.message }));
  };
  const cut = await outcome(inChunks(bytes, setup.chunk), Infinity, false);
  for (const chunks of [inChunks(bytes, setup.chunk), readInPieces(bytes, setup.chunk)]) {
    const again = await outcome(chunks, 0, true);
    if ('error' in cut || 'error' in again) {
      deepStrictEqual('error' in again && again.message, 'error' in cut && cut.message);
    } else deepStrictEqual(again, cut);
  }
  if ('error' in cut) throw cut.error;
  return cut;
}

async function cutChunks(chunks: Chunks, setup: CutSetup, scanner: RecordScanner, together = false): Promise<Cut> {
  const slabs = new SlabPool(1, setup.slab, together);
  const records: CutRecord[] = [];
  let header: string | null = null;
  const onHeader = (h: { bytes: Buffer }) => {
    header = h.bytes.toString('latin1');
  };
  const blocks = cutBlocks(chunks, { scanner, slabs, ...(setup.header ? { onHeader } : {}) });
  let seq = 0;
  for await (const block of blocks) {
    if (block.seq !== seq++) throw new Error('blocks out of order');
    const slab = Buffer.from(block.slab);
    for (let i = 0; i < block.faults.length; i++) {
      const start = block.spans[i * 2]!;
      records.push({
        text: slab.toString('latin1', start, block.spans[i * 2 + 1]!),
        fault: block.faults[i]!,
        line: block.lines[i]!,
        byte: block.firstByte + start,
        row: block.firstRow + i,
      });
    }
    slabs.release(block.lease);
  }
  if (slabs.inFlight !== 0 || slabs.held.bytes !== 0) {
    throw new Error(`${slabs.inFlight} slabs and ${slabs.held.bytes} bytes lost`);
  }
  return { records, header };
}
