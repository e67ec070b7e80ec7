// Reads the first records of an input with the scanner of the engine, and splits them into cells.
import { isUtf8 } from 'node:buffer';
import { RECORD_OK, recordsOf } from '../core/block.ts';
import { SlabPool } from '../core/slabs.ts';
import { DEFAULT_BLOCK_BYTES } from '../engine/score-chunks.ts';
import { hasHeader, type InputFormat, scannerFor } from '../engine/stream-spec.ts';
import type { RecordSlice } from '../formats/decode/decoder.ts';
import { parseCsv } from '../formats/delimited/csv-parse-decoder.ts';
import { cutBlocks } from '../io/source/block-cutter.ts';
import type { Chunks } from '../io/source/byte-source.ts';

export const INSPECTED_ROWS = 10_000;
/** Maximum number of cells in a sample, which limits memory for files with many columns. */
const MOST_CELLS = 2_000_000;
export const MOST_COLUMNS = 2000;
/** Number of records that are parsed in one call. */
const AT_ONCE = 200;
const LF = 10;

/** The first records of an input, copied into separate memory. */
export interface SampledRecords extends RecordSlice {
  /** null: the input has no header row. */
  header: { bytes: Buffer; fault: number } | null;
  count: number;
  /** Whether the input has no further records. */
  complete: boolean;
}

/** Reads the first records. @throws SluiceError errors of the chunks or of the scanner */
export async function sampleRecords(
  chunks: Chunks,
  input: InputFormat,
  limits: { rows: number; bytes: number },
): Promise<SampledRecords> {
  const slabs = new SlabPool(2, DEFAULT_BLOCK_BYTES);
  const records: Buffer[] = [];
  const faults: number[] = [];
  let header: SampledRecords['header'] = null;
  let bytes = 0;
  let complete = true;
  const onHeader = (found: { bytes: Buffer; fault: number }) => {
    header = { bytes: Buffer.from(found.bytes), fault: found.fault };
  };
  const blocks = cutBlocks(chunks, {
    scanner: scannerFor({ input }),
    slabs,
    ...(hasHeader(input) ? { onHeader } : {}),
  });
  for await (const block of blocks) {
    const memory = Buffer.from(block.slab);
    for (let i = 0; i < recordsOf(block) && complete; i++) {
      if (records.length >= limits.rows || bytes >= limits.bytes) complete = false;
      else {
        const record = Buffer.from(memory.subarray(block.spans[i * 2], block.spans[i * 2 + 1]));
        records.push(record);
        faults.push(block.faults[i]!);
        bytes += record.length;
      }
    }
    slabs.release(block.lease);
    if (!complete) break;
  }
  return { ...asSlice(records, faults), header, count: records.length, complete };
}

/** Copies records into one buffer, each followed by a line break. */
function asSlice(records: readonly Buffer[], faults: readonly number[]): RecordSlice {
  const slab = new ArrayBuffer(records.reduce((sum, record) => sum + record.length + 1, 0));
  const memory = Buffer.from(slab);
  const spans = new Int32Array(records.length * 2);
  let at = 0;
  for (const [i, record] of records.entries()) {
    memory.set(record, at);
    spans[i * 2] = at;
    spans[i * 2 + 1] = at + record.length;
    memory[at + record.length] = LF;
    at += record.length + 1;
  }
  return { slab, spans, faults: Uint8Array.from(faults) };
}

/** The sample without its last record. */
export const withoutLast = (sample: SampledRecords): SampledRecords => ({
  ...sample,
  spans: sample.spans.subarray(0, (sample.count - 1) * 2),
  faults: sample.faults.subarray(0, sample.count - 1),
  count: sample.count - 1,
});

/** The sample without its first record. */
export const withoutFirst = (sample: SampledRecords): SampledRecords => ({
  ...sample,
  spans: sample.spans.subarray(2),
  faults: sample.faults.subarray(1),
  count: sample.count - 1,
});

export const recordAt = ({ slab, spans }: RecordSlice, i: number): Buffer =>
  Buffer.from(slab as ArrayBuffer, spans[i * 2]!, spans[i * 2 + 1]! - spans[i * 2]!);

/** The cells of a sample, row by row. */
export interface SampleTable {
  /** null: the fields have no names. */
  names: readonly string[] | null;
  width: number;
  rows: readonly (readonly unknown[])[];
}

const RECORD_DELIMITERS = ['\r\n', '\n', '\r'];

/** The fields of one record, or of several that are parsed together; null: the quoting is invalid. */
export function fieldsOf(bytes: Buffer, delimiter: string): string[][] | null {
  try {
    const options = { delimiter, relax_column_count: true, relax_quotes: true, skip_empty_lines: true };
    return parseCsv(bytes, { ...options, record_delimiter: RECORD_DELIMITERS });
  } catch {
    return null;
  }
}

/** Splits the valid records of delimited text. `names`: the header, or null. */
export function delimitedCells(
  sample: SampledRecords,
  delimiter: string,
  names: readonly string[] | null,
  width: number,
): SampleTable {
  const most = Math.max(1, Math.floor(MOST_CELLS / Math.max(1, width)));
  const rows: string[][] = [];
  for (let i = 0; i < Math.min(sample.count, most); i += AT_ONCE) {
    const to = Math.min(sample.count, most, i + AT_ONCE);
    rows.push(...fieldsBetween(sample, i, to, delimiter));
  }
  return { names, width, rows };
}

function fieldsBetween(sample: SampledRecords, from: number, to: number, delimiter: string): string[][] {
  const valid = Array.from({ length: to - from }, (_, k) => from + k).filter((i) => sample.faults[i] === RECORD_OK);
  if (valid.length === to - from) {
    const start = sample.spans[from * 2]!;
    const all = Buffer.from(sample.slab as ArrayBuffer, start, sample.spans[to * 2 - 1]! - start);
    const rows = isUtf8(all) ? fieldsOf(all, delimiter) : null;
    if (rows?.length === to - from) return rows;
  }
  return valid.flatMap((i) => {
    const record = recordAt(sample, i);
    return isUtf8(record) ? (fieldsOf(record, delimiter)?.slice(0, 1) ?? []) : [];
  });
}

/** Splits JSON records. The order of the columns is the order in which keys first occur. */
export function jsonCells(sample: SampledRecords): SampleTable {
  const places = new Map<string, number>();
  const rows: unknown[][] = [];
  let cells = 0;
  for (let i = 0; i < sample.count && cells < MOST_CELLS; i++) {
    const record = sample.faults[i] === RECORD_OK ? objectIn(recordAt(sample, i)) : null;
    if (!record) continue;
    const row: unknown[] = [];
    for (const [key, value] of Object.entries(record)) {
      let at = places.get(key);
      if (at === undefined) {
        if (places.size >= MOST_COLUMNS) continue;
        at = places.size;
        places.set(key, at);
      }
      row[at] = value;
      cells++;
    }
    rows.push(row);
  }
  return { names: [...places.keys()], width: places.size, rows };
}

function objectIn(bytes: Buffer): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

/**
 * The cells of a column that are texts. Numbers and booleans of JSON are omitted, because declarations do not apply to
 * them.
 */
export const textsOf = ({ rows }: SampleTable, at: number): string[] =>
  rows.flatMap((row) => (typeof row[at] === 'string' ? [row[at]] : []));
