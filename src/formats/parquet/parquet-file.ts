// Reads a Parquet file as batches of columns, one page at a time.
// Memory holds one page and one dictionary per column, independent of the size of row groups.

import { type FileHandle, open } from 'node:fs/promises';
import { type FileMetaData, parquetMetadata, parquetSchema, type SchemaElement, type SchemaTree } from 'hyparquet';
import type { ValueKind } from '../../core/block.ts';
import { SluiceError } from '../../core/errors.ts';
import { fileFault, readFully } from '../../core/file-system.ts';
import { assertSameFile, type ByteSource } from '../../io/source/byte-source.ts';
import { durationColumns } from '../arrow/arrow-messages.ts';
import { batchRows, type ColumnSource, fillBatch, fitRows, keysOf, type LineBatch } from '../columns/line-batch.ts';
import type { GroupEnd } from '../columns/table-format.ts';
import { TableBudget } from '../columns/table-limits.ts';
import { ParquetColumn } from './parquet-column.ts';
import { type ChunkPlace, type Decompressors, HeldPages, PageReader, type RandomAccess } from './parquet-pages.ts';
import { kindOfElement, type ParquetElement } from './parquet-types.ts';
import { checkThrift } from './thrift-check.ts';

interface RowGroup {
  rows: number;
  /** Offset of the row group's first byte in the file. */
  byte: number;
  /** Stored (compressed) size of the row group, bytes. */
  bytes: number;
}

/** The ends of the row groups. If the groups are not stored in order, a single end with all rows. */
function groupEnds(groups: readonly RowGroup[], from: number, to: number): GroupEnd[] {
  const ends = groups.map(({ rows, byte, bytes }, i) => ({ rows, end: groups[i + 1]?.byte ?? byte + bytes }));
  const isOrdered = groups.every(({ byte, bytes }, i) => byte + bytes <= ends[i]!.end && bytes > 0);
  const own = ends.slice(from, to);
  if (isOrdered) return own;
  const rows = own.reduce((sum, group) => sum + group.rows, 0);
  return rows === 0 ? [] : [{ rows, end: Math.max(...groups.slice(from, to).map((g) => g.byte + g.bytes)) }];
}

interface ParquetOptions {
  /** Row groups to read, from 0; `to` is exclusive. Default: all. */
  groups?: { from: number; to: number } | undefined;
  /** Called after every page with its stored size. */
  onRead?: (bytes: number) => void;
  /** Whether to leave out the column with this name. Such columns may be nested. */
  ignored?: (name: string, nested: boolean) => boolean;
  /** Default: only the text of a row is limited. */
  budget?: TableBudget | undefined;
}

/** Codecs that Node and hyparquet decompress. All other codecs require an additional library. */
const USUAL_CODECS = new Set(['UNCOMPRESSED', 'SNAPPY', 'ZSTD', 'GZIP']);

/** Bytes to read ahead for all columns together. `LEAST_AHEAD`: minimum for a single column. */
const AHEAD_BYTES = 16 * 1024 * 1024;
const LEAST_AHEAD = 16 * 1024;
/** Maximum bytes to read ahead per column. The limit is larger if each read is a request to a remote server. */
const MOST_AHEAD = { near: 64 * 1024, far: 1024 * 1024 };

/**
 * Number of bytes at the end of a file that usually contain the whole footer. `FOOTER_END`: bytes of the footer's
 * length and the magic number. `MAGIC`: the magic number, "PAR1".
 */
const TAIL_BYTES = 512 * 1024;
const FOOTER_END = 8;
const MAGIC = 0x31524150;
/** Maximum size of a footer, bytes; enough for about 100,000 column chunks. */
const MOST_FOOTER_BYTES = 64 * 1024 * 1024;

type Group = FileMetaData['row_groups'][number];
type ChunkMetadata = NonNullable<Group['columns'][number]['meta_data']>;

/** Opens a local file, which the caller must close. @throws SluiceError input_not_found */
export async function openRandomAccess(path: string): Promise<RandomAccess & { close(): Promise<void> }> {
  let handle: FileHandle;
  try {
    handle = await open(path, 'r');
  } catch (cause) {
    throw new SluiceError('input_not_found', `${path} cannot be opened`, { cause });
  }
  const before = await handle.stat();
  return {
    name: path,
    byteLength: before.size,
    assertUnchanged: () => assertSameFile(path, handle, before),
    read: async (target, position) => {
      const isWhole = await readFully(handle, target, position).catch((cause: unknown) => {
        throw new SluiceError('input_unreadable', `${path}: ${fileFault(cause)}`, { cause });
      });
      if (!isWhole) throw new SluiceError('input_changed', `${path} became shorter while it was being read`);
    },
    close: () => handle.close(),
  };
}

/** Random access to an object in object storage. `byteLength`: size of the whole object. */
export const slicedAccess = (
  name: string,
  byteLength: number,
  slice: NonNullable<ByteSource['slice']>,
): RandomAccess => ({
  name,
  byteLength,
  read: async (target, position) => target.set(await slice(position, position + target.length)),
});

/** The row groups of a file. @throws SluiceError truncated_input if the file is not a complete Parquet file */
export async function rowGroups(file: RandomAccess): Promise<RowGroup[]> {
  return (await metadataOf(file)).row_groups.map(groupOf);
}

/** Offset of the footer of a complete Parquet file: its metadata, with the length and the magic number behind it. */
export async function footerStart(file: RandomAccess): Promise<number> {
  const length = new DataView(await lastBytes(file, FOOTER_END)).getUint32(0, true);
  return file.byteLength - FOOTER_END - length;
}

function groupOf({ columns, num_rows }: Group): RowGroup {
  const of = columns.flatMap(({ meta_data: data }) => (data ? [data] : []));
  return {
    rows: Number(num_rows),
    byte: Math.min(...of.map((c) => placeOf(c).from)),
    bytes: of.reduce((sum, c) => sum + Number(c.total_compressed_size), 0),
  };
}

async function metadataOf(file: RandomAccess): Promise<FileMetaData> {
  try {
    const tail = await lastBytes(file, Math.min(file.byteLength, TAIL_BYTES));
    const view = new DataView(tail);
    if (tail.byteLength < FOOTER_END || view.getUint32(tail.byteLength - 4, true) !== MAGIC)
      throw new Error('it does not end with PAR1');
    const length = view.getUint32(tail.byteLength - FOOTER_END, true) + FOOTER_END;
    if (length > file.byteLength) throw new Error('its footer is longer than the file');
    if (length > MOST_FOOTER_BYTES)
      throw new SluiceError('limit_exceeded', `${file.name}: its footer has more than ${MOST_FOOTER_BYTES} bytes`);
    const footer = length <= tail.byteLength ? tail.slice(tail.byteLength - length) : await lastBytes(file, length);
    checkThrift(new Uint8Array(footer, 0, length - FOOTER_END), 0);
    return parquetMetadata(footer);
  } catch (cause) {
    throw broken(file.name, cause);
  }
}

async function lastBytes(file: RandomAccess, count: number): Promise<ArrayBuffer> {
  const bytes = new Uint8Array(count);
  await file.read(bytes, file.byteLength - count);
  return bytes.buffer;
}

function broken(name: string, cause: unknown): SluiceError {
  if (cause instanceof SluiceError) return cause;
  const why = cause instanceof Error ? cause.message : cause;
  const logMessage = `${name} is not a complete Parquet file`;
  return new SluiceError('truncated_input', `${logMessage}: ${why}`, { cause, logMessage });
}

/**
 * Opens a Parquet file. `far`: each read is a request to a remote server.
 * @throws SluiceError truncated_input | header_mismatch (a nested column)
 */
export async function openParquet(file: RandomAccess, options: ParquetOptions, far = false): Promise<ParquetTable> {
  const metadata = await metadataOf(file);
  const { from = 0, to = Infinity } = options.groups ?? {};
  const groups = metadata.row_groups.filter((_, i) => i >= from && i < to);
  const codecs = groups.flatMap(({ columns }) => columns.map(({ meta_data: data }) => data?.codec ?? ''));
  const decompressors = codecs.every((codec) => USUAL_CODECS.has(codec))
    ? {}
    : ((await import('hyparquet-compressors')).compressors as Decompressors);
  try {
    const ends = groupEnds(metadata.row_groups.map(groupOf), from, to);
    return new ParquetTable(file, { ...options, tree: schemaOf(metadata), groups, ends, decompressors, far });
  } catch (cause) {
    // The schema is invalid, or an annotation does not fit the type of its column.
    throw broken(file.name, cause);
  }
}

/** The Arrow schema that pyarrow, pandas and Polars store, as base64 of a message: its length, then its description. */
const ARROW_SCHEMA = 'ARROW:schema';
const ARROW_PREFIX_BYTES = 8;

/**
 * The columns of a file. Parquet has no durations: pandas and others store them as plain integers, and their type in
 * the Arrow schema only.
 * @throws SluiceError truncated_input
 */
function schemaOf(metadata: FileMetaData): SchemaTree {
  const tree = parquetSchema(metadata);
  const stored = metadata.key_value_metadata?.find(({ key }) => key === ARROW_SCHEMA)?.value;
  if (stored === undefined || !tree.children.some(({ element }) => isPlainLong(element))) return tree;
  const columns = durationColumns(Buffer.from(stored, 'base64').subarray(ARROW_PREFIX_BYTES));
  for (const [i, { element }] of tree.children.entries()) {
    const duration = columns[i];
    if (duration?.name !== element.name || !isPlainLong(element)) continue;
    (element as ParquetElement).durationsPerSecond = duration.perSecond;
  }
  return tree;
}

const isPlainLong = ({ type, logical_type, converted_type }: SchemaElement): boolean =>
  type === 'INT64' && logical_type === undefined && converted_type === undefined;

interface TableParts extends Omit<ParquetOptions, 'groups'> {
  tree: SchemaTree;
  groups: readonly Group[];
  ends: readonly GroupEnd[];
  decompressors: Decompressors;
  far: boolean;
}

class ParquetTable implements ColumnSource {
  readonly names: readonly string[];
  readonly kinds: readonly ValueKind[];
  readonly recordBytes: number;
  readonly ends: readonly GroupEnd[];
  readonly #budget: TableBudget;
  readonly #file: RandomAccess;
  readonly #columns: readonly ParquetColumn[];
  /** For each column: how many columns before it have its name. */
  readonly #occurrences: readonly number[];
  /** Indexes of the columns whose values become null. */
  #unused: readonly number[] = [];
  readonly #groups: readonly Group[];
  readonly #onRead: (bytes: number) => void;
  #group = 0;
  /** Number of rows of the current group that were not read yet. */
  #left = 0;
  /** Number of bytes of the current group that were reported to `#onRead`. */
  #told = 0;

  constructor(file: RandomAccess, parts: TableParts) {
    const { tree, groups, ends, decompressors, far, onRead, ignored, budget = new TableBudget() } = parts;
    const leaves = tree.children.filter((child) => !ignored?.(child.element.name, isNested(child)));
    const nested = leaves.find(isNested);
    if (nested) throw nestedColumn(file.name, nested.element.name);
    budget.checkColumns(leaves.length);
    this.#budget = budget;
    this.recordBytes = budget.recordBytes;
    this.names = leaves.map(({ element }) => element.name);
    const counts = new Map<string, number>();
    const occurrences = new Map<SchemaTree, number>();
    for (const child of tree.children) {
      if (child.children.length > 0) continue;
      const before = counts.get(child.element.name) ?? 0;
      occurrences.set(child, before);
      counts.set(child.element.name, before + 1);
    }
    this.#occurrences = leaves.map((leaf) => occurrences.get(leaf)!);
    this.kinds = leaves.map(({ element }) => kindOfElement(element));
    this.#file = file;
    this.#groups = groups;
    this.ends = ends;
    this.#onRead = onRead ?? (() => {});
    const ahead = Math.max(LEAST_AHEAD, Math.floor(AHEAD_BYTES / Math.max(1, leaves.length)));
    const windowBytes = Math.min(ahead, far ? MOST_AHEAD.far : MOST_AHEAD.near);
    const keys = keysOf(this.names);
    const rows = batchRows(leaves.length);
    const held = new HeldPages();
    this.#columns = leaves.map(({ element }, i) => {
      const pages = new PageReader(file, decompressors, windowBytes, held);
      return new ParquetColumn(element, keys[i]!, { pages, rows, recordBytes: this.recordBytes, budget });
    });
  }

  readForModel(names: ReadonlySet<string>, unused: ReadonlySet<string>): void {
    for (const [c, column] of this.#columns.entries()) column.forModel = names.has(this.names[c]!);
    this.#unused = this.names.flatMap((name, c) => (unused.has(name) ? [c] : []));
  }

  async next(batch: LineBatch): Promise<boolean> {
    try {
      while (this.#left === 0) {
        if (this.#group === this.#groups.length) {
          await this.#file.assertUnchanged?.();
          return false;
        }
        this.#begin(this.#groups[this.#group++]!);
      }
      await Promise.all(this.#columns.map((column) => (column.left === 0 ? this.#load(column) : null)));
      let rows = Math.min(batch.capacity, this.#left);
      for (const { left } of this.#columns) rows = Math.min(rows, left);
      rows = fitRows(this.#columns, rows);
      fillBatch(batch, this.#columns, { rows, recordBytes: this.recordBytes, unused: this.#unused });
      this.#left -= rows;
      if (this.#left === 0) this.#tell(groupOf(this.#groups[this.#group - 1]!).bytes - this.#told);
      return true;
    } catch (cause) {
      throw broken(this.#file.name, cause);
    }
  }

  #begin(group: Group): void {
    this.#left = Number(group.num_rows);
    if (!(Number.isSafeInteger(this.#left) && this.#left >= 0)) throw new Error('a row group has no number of rows');
    this.#budget.addRows(this.#left);
    this.#told = 0;
    // A column inside a struct is ignored. The name of another column may equal its path with dots.
    const chunks = group.columns.flatMap(({ meta_data: data }) => (data?.path_in_schema?.length === 1 ? [data] : []));
    const byName = Map.groupBy(chunks, ({ path_in_schema: [name] }) => name);
    this.names.forEach((name, i) => {
      const data = byName.get(name)?.[this.#occurrences[i]!];
      if (!data) throw new Error('a row group lacks a column');
      this.#columns[i]!.begin(placeOf(data));
    });
  }

  async #load(column: ParquetColumn): Promise<void> {
    this.#tell(await column.load());
  }

  #tell(bytes: number): void {
    this.#told += bytes;
    this.#onRead(bytes);
  }
}

function placeOf(data: ChunkMetadata): ChunkPlace {
  const pages = Number(data.data_page_offset);
  const words = data.dictionary_page_offset === undefined ? 0 : Number(data.dictionary_page_offset);
  // Some writers store 0 if the column has no dictionary.
  const from = words > 0 ? Math.min(words, pages) : pages;
  return { codec: data.codec, from, to: from + Number(data.total_compressed_size) };
}

const isNested = ({ children, element }: SchemaTree): boolean =>
  children.length > 0 || element.repetition_type === 'REPEATED' || element.num_children !== undefined;

const nestedColumn = (file: string, column: string): SluiceError =>
  new SluiceError(
    'header_mismatch',
    // The message omits other names, because they may be values of the input.
    `${file}: the column${/^[A-Za-z_][A-Za-z0-9_]*$/.test(column) ? ` ${column}` : ''} is nested; flatten it, or declare it as ignored`,
  );
