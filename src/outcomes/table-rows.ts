// Reads named columns of a file. Delimited text is read with the decoders for applications, JSON record by record.
import { isUtf8 } from 'node:buffer';
import { type ColumnBatch, newBatch } from '../core/batch.ts';
import { type Block, RECORD_OK, recordsOf } from '../core/block.ts';
import { SluiceError } from '../core/errors.ts';
import { SlabPool } from '../core/slabs.ts';
import { createDecoder } from '../formats/choose-decoder.ts';
import type { Decoder } from '../formats/decode/decoder.ts';
import { decoderOverride } from '../formats/decode/decoder-override.ts';
import { splitHeader } from '../formats/delimited/header.ts';
import { cutBlocks } from '../io/source/block-cutter.ts';
import type { Chunks } from '../io/source/byte-source.ts';
import { DelimitedScanner } from '../io/source/delimited-scanner.ts';
import { JsonScanner } from '../io/source/json-scanner.ts';
import type { RecordScanner } from '../io/source/record-scanner.ts';
import { ObjectColumns, type RowBatch, type RowFault, type WantedColumn } from './row-batch.ts';

// The functions below read the JSON response of a prediction request, which is an object that contains an array of
// predictions.

/** The array must begin within this many bytes. */
const HEAD_BYTES = 64 * 1024;
/** Maximum number of bytes after the array, which contain three numbers. */
const TAIL_BYTES = 1024;
const OPEN_OBJECT = 123;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;

/** The members of a response except its predictions. */
interface AnswerEnvelope {
  modelId?: unknown;
  modelVersion?: unknown;
  summary?: { rows?: unknown };
}

/**
 * Extracts the array from a JSON response. Other JSON passes unchanged. `envelope` gets the model before the first
 * bytes are yielded, and the summary after the last bytes.
 * @throws SluiceError truncated_input if the response is incomplete
 */
async function* predictionsOf(name: string, chunks: Chunks, envelope: AnswerEnvelope): AsyncGenerator<Uint8Array> {
  /** The first bytes of the input; null: it is known whether they are the start of a response. */
  let head: Buffer | null = Buffer.alloc(0);
  let isAnswer = false;
  let held: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    let bytes: Buffer = Buffer.from(chunk);
    if (head) {
      head = Buffer.concat([head, bytes]);
      const begin = beginOf(head, envelope);
      if (begin === null && head.length < HEAD_BYTES) continue;
      isAnswer = begin !== null && begin > 0;
      bytes = head.subarray(begin ?? 0);
      head = null;
    }
    if (!isAnswer) {
      yield bytes;
      continue;
    }
    held = Buffer.concat([held, bytes]);
    if (held.length > TAIL_BYTES) {
      yield held.subarray(0, held.length - TAIL_BYTES);
      held = held.subarray(held.length - TAIL_BYTES);
    }
  }
  if (!isAnswer) yield head ?? held;
  else yield held.subarray(0, endOf(name, held, envelope));
}

/** The start of the array; 0: the input is not a response; null: more bytes are needed to decide. */
function beginOf(head: Buffer, envelope: AnswerEnvelope): number | null {
  const first = head.findIndex((c) => c > 32 && c !== 0xef && c !== 0xbb && c !== 0xbf);
  if (first < 0) return null;
  if (head[first] !== OPEN_OBJECT) return 0;
  const key = head.indexOf('"predictions"');
  const begin = key < 0 ? -1 : head.indexOf(OPEN_ARRAY, key);
  if (begin < 0) return null;
  const members = parsed(`${head.toString('utf8', first, begin)}[]}`);
  if (members?.modelId === undefined) return 0;
  Object.assign(envelope, members);
  return begin;
}

/** Offset after the end of the array. */
function endOf(name: string, tail: Buffer, envelope: AnswerEnvelope): number {
  const end = tail.lastIndexOf(CLOSE_ARRAY) + 1;
  const rest = tail.toString('utf8', end).trim();
  const members = rest.startsWith(',') ? parsed(`{${rest.slice(1)}`) : null;
  if (end === 0 || !members?.summary)
    throw new SluiceError('truncated_input', `${name} has no summary at its end: the file is truncated`);
  envelope.summary = members.summary;
  return end;
}

function parsed(text: string): AnswerEnvelope | null {
  try {
    return JSON.parse(text) as AnswerEnvelope;
  } catch {
    return null;
  }
}

/** A file of any format and compression. */
interface TableFile {
  readonly name: string;
  open(): Promise<OpenTable>;
}

interface OpenTable {
  readonly chunks: Chunks;
  readonly input: { format: 'delimited'; delimiter: string } | { format: 'ndjson' | 'json' };
  close(): Promise<void>;
}

const SLAB_BYTES = 1024 * 1024;
/** Maximum bytes per record and maximum nesting of its JSON. */
const MAX_RECORD_BYTES = 16 * 1024 * 1024;
const MAX_DEPTH = 64;
/** Number of rows that are decoded at once. */
const BATCH_ROWS = 2048;

/**
 * All rows of a file in order.
 * @throws SluiceError input_* | truncated_input | malformed_json | empty_input (no header) | outcomes_invalid (the
 * header lacks a column)
 */
export async function* tableRows(
  file: TableFile,
  columns: readonly WantedColumn[],
  signal: AbortSignal | undefined,
): AsyncGenerator<RowBatch> {
  const table = await file.open();
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  const slabs = new SlabPool(2, SLAB_BYTES);
  const reader = readerOf(file.name, table, columns);
  const options = { scanner: reader.scanner, slabs, signal: stop.signal };
  const blocks = cutBlocks(reader.chunks, reader.onHeader ? { ...options, onHeader: reader.onHeader } : options);
  try {
    signal?.throwIfAborted();
    for await (const block of blocks) {
      for (let from = 0; from < recordsOf(block); from += BATCH_ROWS) {
        yield reader.read(block, from, Math.min(recordsOf(block), from + BATCH_ROWS));
      }
      slabs.release(block.lease);
    }
    reader.end?.();
  } finally {
    signal?.removeEventListener('abort', onAbort);
    stop.abort();
    await blocks.return(undefined);
    await table.close();
  }
}

interface BlockReader {
  readonly scanner: RecordScanner;
  readonly chunks: Chunks;
  readonly onHeader?: (header: { bytes: Buffer; fault: number }) => void;
  read(block: Block, from: number, to: number): RowBatch;
  /** Called at the end of the input. */
  end?(): void;
}

function readerOf(name: string, { chunks, input }: OpenTable, columns: readonly WantedColumn[]): BlockReader {
  if (input.format === 'delimited') return new DelimitedRows(name, chunks, input.delimiter, columns);
  return new JsonRows(name, chunks, input.format, columns);
}

class DelimitedRows implements BlockReader {
  readonly scanner: RecordScanner;
  readonly chunks: Chunks;
  readonly #name: string;
  readonly #delimiter: string;
  readonly #columns: readonly WantedColumn[];
  #has: boolean[] = [];
  #decoder: Decoder | null = null;
  #batch: ColumnBatch | null = null;

  constructor(name: string, chunks: Chunks, delimiter: string, columns: readonly WantedColumn[]) {
    this.#name = name;
    this.chunks = chunks;
    this.#delimiter = delimiter;
    this.#columns = columns;
    this.scanner = new DelimitedScanner(delimiter.charCodeAt(0), MAX_RECORD_BYTES);
  }

  readonly onHeader = ({ bytes, fault }: { bytes: Buffer; fault: number }): void => {
    if (fault !== RECORD_OK) throw new SluiceError('outcomes_invalid', `${this.#name}: the header row is malformed`);
    const names = splitHeader(bytes, this.#delimiter);
    const places = this.#columns.map((column) => this.#placeOf(column, names));
    this.#has = places.map((place) => place >= 0);
    const passthrough = places.filter((place) => place >= 0);
    const layout = { delimiter: this.#delimiter, fields: names.length, columns: [], passthrough };
    this.#decoder = createDecoder([], { format: 'delimited', layout }, decoderOverride() ?? 'fast');
    this.#batch = newBatch([], BATCH_ROWS, passthrough.length);
  };

  read(block: Block, from: number, to: number): RowBatch {
    const batch = this.#batch!;
    this.#decoder!.decode(block, from, to, batch);
    let next = 0;
    return {
      rows: to - from,
      placeOf: (row) => block.firstRow + from + row,
      texts: this.#has.map((has) => (has ? batch.passthrough[next++]! : NO_TEXTS)),
      has: this.#has,
      faults: batch.rejections.map(({ index, code, message }) => ({ row: index, code, column: null, message })),
    };
  }

  end(): void {
    if (!this.#decoder) throw new SluiceError('empty_input', `${this.#name} has no header row`);
  }

  #placeOf({ name, required }: WantedColumn, names: readonly string[]): number {
    const place = name === '' ? -1 : names.indexOf(name);
    if (place < 0 && required) throw new SluiceError('outcomes_invalid', `${this.#name} has no column ${name}`);
    if (place >= 0 && names.indexOf(name, place + 1) > 0) {
      throw new SluiceError('outcomes_invalid', `${this.#name} has the column ${name} twice`);
    }
    return place;
  }
}

const NO_TEXTS: readonly (string | null)[] = new Array<string | null>(BATCH_ROWS).fill(null);

class JsonRows implements BlockReader {
  readonly scanner: RecordScanner;
  readonly chunks: Chunks;
  readonly #name: string;
  readonly #envelope: AnswerEnvelope = {};
  readonly #objects: ObjectColumns;
  #rows = 0;

  constructor(name: string, chunks: Chunks, format: 'ndjson' | 'json', columns: readonly WantedColumn[]) {
    this.#name = name;
    const lines = format === 'ndjson';
    this.scanner = lines
      ? new DelimitedScanner(-1, MAX_RECORD_BYTES, -1)
      : new JsonScanner(MAX_RECORD_BYTES, MAX_DEPTH, decoderOverride() === null ? undefined : Infinity);
    this.chunks = lines ? chunks : predictionsOf(name, chunks, this.#envelope);
    this.#objects = new ObjectColumns(columns);
  }

  read(block: Block, from: number, to: number): RowBatch {
    const texts = this.#objects.newTexts(to - from);
    const faults: RowFault[] = [];
    const bytes = Buffer.from(block.slab);
    const { modelId, modelVersion } = this.#envelope;
    const otherwise = { modelId, modelVersion };
    for (let i = from; i < to; i++) {
      const record = bytes.subarray(block.spans[i * 2], block.spans[i * 2 + 1]);
      const fault =
        block.faults[i] !== RECORD_OK || !isUtf8(record)
          ? UNREADABLE
          : this.#objects.read(record.toString('utf8'), texts, i - from, otherwise);
      if (fault) faults.push({ ...fault, row: i - from });
    }
    this.#rows += to - from;
    return { rows: to - from, placeOf: (row) => block.firstRow + from + row, texts, has: this.#objects.has, faults };
  }

  end(): void {
    const said = this.#envelope.summary?.rows;
    if (said !== undefined && said !== this.#rows) {
      throw new SluiceError(
        'truncated_input',
        `${this.#name} contains ${this.#rows} predictions, but its summary has another number`,
      );
    }
  }
}

const UNREADABLE = {
  code: 'malformed_record',
  column: null,
  message: 'the record is too long or not valid UTF-8',
} as const;
