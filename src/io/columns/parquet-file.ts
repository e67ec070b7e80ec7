// A Parquet file as batches of columns: page by page, so that memory is that of a page and a dictionary a column, whatever a row group has.
import { type FileHandle, open } from 'node:fs/promises';
import { type FileMetaData, parquetMetadataAsync, parquetSchema, type SchemaTree } from 'hyparquet';
import type { ValueKind } from '../../core/block-columns.ts';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-errors.ts';
import { batchRows, type ColumnSource, keysOf, type LineBatch } from './line-batch.ts';
import { ParquetColumn } from './parquet-column.ts';
import { type ChunkPlace, type Decompressors, PageReader, type RandomAccess } from './parquet-pages.ts';
import { kindOfElement } from './parquet-types.ts';

export interface RowGroup {
  rows: number;
  /** Where its first byte lies in the file. */
  byte: number;
  /** As stored. */
  bytes: number;
}

export interface ParquetOptions {
  /** Row groups from 0, `to` exclusive. Default: all. */
  groups?: { from: number; to: number } | undefined;
  /** Told of the bytes of every page that has been read, as stored. */
  onRead?: (bytes: number) => void;
  /** Columns that nobody looks at: they may be nested. */
  ignored?: (name: string) => boolean;
}

/** Packings that Node and hyparquet undo; others need more code. */
const USUAL_CODECS = new Set(['UNCOMPRESSED', 'SNAPPY', 'ZSTD', 'GZIP']);

/** Bytes all columns together read ahead, and bounds of a single one. */
const AHEAD_BYTES = 16 * 1024 * 1024;
const LEAST_AHEAD = 16 * 1024;
/** Where each read is a request, more is read by one. */
const MOST_AHEAD = { near: 64 * 1024, far: 1024 * 1024 };

type Group = FileMetaData['row_groups'][number];

/** A file of this machine. `close` it. @throws SluiceError input_not_found */
export async function openRandomAccess(path: string): Promise<RandomAccess & { close(): Promise<void> }> {
  let handle: FileHandle;
  try {
    handle = await open(path, 'r');
  } catch (cause) {
    throw new SluiceError('input_not_found', `${path} cannot be opened`, { cause });
  }
  const { size } = await handle.stat();
  return {
    name: path,
    byteLength: size,
    read: async (target, position) => {
      for (let filled = 0; filled < target.length; ) {
        const { bytesRead } = await handle
          .read(target, filled, target.length - filled, position + filled)
          .catch((cause: unknown) => {
            throw new SluiceError('input_unreadable', `${path}: ${fileFault(cause)}`, { cause });
          });
        if (bytesRead === 0) throw new SluiceError('input_changed', `${path} became shorter while it was read`);
        filled += bytesRead;
      }
    },
    close: () => handle.close(),
  };
}

/** @throws SluiceError truncated_input: it is no whole Parquet file */
export async function rowGroups(file: RandomAccess): Promise<RowGroup[]> {
  return (await metadataOf(file)).row_groups.map(groupOf);
}

function groupOf({ columns, num_rows }: Group): RowGroup {
  const of = columns.flatMap(({ meta_data: data }) => (data ? [data] : []));
  return {
    rows: Number(num_rows),
    byte: Math.min(...of.map((c) => Number(c.dictionary_page_offset ?? c.data_page_offset))),
    bytes: of.reduce((sum, c) => sum + Number(c.total_compressed_size), 0),
  };
}

async function metadataOf(file: RandomAccess): Promise<FileMetaData> {
  const { byteLength } = file;
  const slice = async (start: number, end = byteLength): Promise<ArrayBuffer> => {
    const bytes = new Uint8Array(end - start);
    await file.read(bytes, start);
    return bytes.buffer;
  };
  try {
    return await parquetMetadataAsync({ byteLength, slice });
  } catch (cause) {
    throw broken(file.name, cause);
  }
}

function broken(name: string, cause: unknown): SluiceError {
  if (cause instanceof SluiceError) return cause;
  const why = cause instanceof Error ? cause.message : cause;
  return new SluiceError('truncated_input', `${name} is no whole Parquet file: ${why}`, { cause });
}

/**
 * Opens a Parquet file. `far`: each read is a request to somebody else.
 * @throws SluiceError truncated_input | header_mismatch: a column is nested
 */
export async function openParquet(file: RandomAccess, options: ParquetOptions, far = false): Promise<ParquetTable> {
  const metadata = await metadataOf(file);
  const { from = 0, to = Infinity } = options.groups ?? {};
  const groups = metadata.row_groups.filter((_, i) => i >= from && i < to);
  const codecs = groups.flatMap(({ columns }) => columns.map(({ meta_data: data }) => data?.codec ?? ''));
  const decompressors = codecs.every((codec) => USUAL_CODECS.has(codec))
    ? {}
    : ((await import('hyparquet-compressors')).compressors as Decompressors);
  return new ParquetTable(file, { ...options, tree: parquetSchema(metadata), groups, decompressors, far });
}

interface TableParts extends Omit<ParquetOptions, 'groups'> {
  tree: SchemaTree;
  groups: readonly Group[];
  decompressors: Decompressors;
  far: boolean;
}

export class ParquetTable implements ColumnSource {
  readonly names: readonly string[];
  readonly kinds: readonly ValueKind[];
  readonly #name: string;
  readonly #columns: readonly ParquetColumn[];
  readonly #groups: readonly Group[];
  readonly #onRead: (bytes: number) => void;
  #group = 0;
  /** Rows of the group at hand that are not read. */
  #left = 0;
  /** Bytes of it that were told of. */
  #told = 0;

  constructor(file: RandomAccess, { tree, groups, decompressors, far, onRead, ignored }: TableParts) {
    const leaves = tree.children.filter((child) => !isNested(child) || !ignored?.(child.element.name));
    const nested = leaves.find(isNested);
    if (nested) throw nestedColumn(file.name, nested.element.name);
    this.names = leaves.map(({ element }) => element.name);
    this.kinds = leaves.map(({ element }) => kindOfElement(element));
    this.#name = file.name;
    this.#groups = groups;
    this.#onRead = onRead ?? (() => {});
    const ahead = Math.max(LEAST_AHEAD, Math.floor(AHEAD_BYTES / Math.max(1, leaves.length)));
    const windowBytes = Math.min(ahead, far ? MOST_AHEAD.far : MOST_AHEAD.near);
    const keys = keysOf(this.names);
    const rows = batchRows(leaves.length);
    this.#columns = leaves.map(
      ({ element }, i) => new ParquetColumn(element, keys[i]!, new PageReader(file, decompressors, windowBytes), rows),
    );
  }

  readForModel(names: ReadonlySet<string>): void {
    for (const [c, column] of this.#columns.entries()) column.forModel = names.has(this.names[c]!);
  }

  async next(batch: LineBatch): Promise<boolean> {
    try {
      while (this.#left === 0) {
        if (this.#group === this.#groups.length) return false;
        this.#begin(this.#groups[this.#group++]!);
      }
      await Promise.all(this.#columns.map((column) => (column.left === 0 ? this.#load(column) : null)));
      let rows = Math.min(batch.capacity, this.#left);
      for (const { left } of this.#columns) rows = Math.min(rows, left);
      for (let c = 0; c < this.#columns.length; c++) this.#columns[c]!.take(batch.columns[c]!, rows);
      batch.rows = rows;
      this.#left -= rows;
      if (this.#left === 0) this.#tell(groupOf(this.#groups[this.#group - 1]!).bytes - this.#told);
      return true;
    } catch (cause) {
      throw broken(this.#name, cause);
    }
  }

  #begin(group: Group): void {
    this.#left = Number(group.num_rows);
    this.#told = 0;
    const byName = new Map(group.columns.map((column) => [column.meta_data?.path_in_schema.join('.'), column]));
    this.names.forEach((name, i) => {
      const data = byName.get(name)?.meta_data;
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

function placeOf(data: NonNullable<Group['columns'][number]['meta_data']>): ChunkPlace {
  const pages = Number(data.data_page_offset);
  const words = data.dictionary_page_offset === undefined ? 0 : Number(data.dictionary_page_offset);
  // Some writers say 0 where there is no dictionary.
  const from = words > 0 ? Math.min(words, pages) : pages;
  return { codec: data.codec, from, to: from + Number(data.total_compressed_size) };
}

const isNested = ({ children, element }: SchemaTree): boolean =>
  children.length > 0 || element.repetition_type === 'REPEATED' || element.num_children !== undefined;

const nestedColumn = (file: string, column: string): SluiceError =>
  new SluiceError('header_mismatch', `${file}: the column ${column} is nested; flatten it, or declare it as ignored`);
