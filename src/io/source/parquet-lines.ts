// A Parquet file as lines of JSON: row group by row group, so memory is that of the largest group.
import { stat } from 'node:fs/promises';
import { asyncBufferFromFile, type FileMetaData, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { SluiceError } from '../../core/errors.ts';

/** Lines handed on at once. */
const LINES = 2000;

export interface RowGroup {
  rows: number;
  /** Where its first byte lies in the file. */
  byte: number;
  /** As stored. */
  bytes: number;
}

/** A file that is elsewhere, of which any part can be had. */
export interface RandomAccess {
  name: string;
  byteLength: number;
  /** From `start` to before `end`. @throws SluiceError */
  slice(start: number, end: number): Promise<Uint8Array<ArrayBuffer>>;
}

export interface LinesOptions {
  /** Row groups from 0, `to` exclusive. Default: all. */
  groups?: { from: number; to: number } | undefined;
  /** Told of the bytes of every group that has been read, as stored. */
  onRead?: (bytes: number) => void;
}

/** @throws SluiceError input_not_found | truncated_input: the file is no whole Parquet file */
export async function* parquetLines(
  file: string | RandomAccess,
  { groups, onRead }: LinesOptions = {},
): AsyncGenerator<Uint8Array> {
  const { buffer, metadata } = await opened(file);
  try {
    let rowStart = 0;
    for (const [i, group] of metadata.row_groups.entries()) {
      const rowEnd = rowStart + Number(group.num_rows);
      if (i >= (groups?.from ?? 0) && i < (groups?.to ?? Infinity)) {
        const rows = await parquetReadObjects({ file: buffer, metadata, rowStart, rowEnd, compressors });
        onRead?.(groupOf(group).bytes);
        for (let at = 0; at < rows.length; at += LINES) {
          yield Buffer.from(
            rows
              .slice(at, at + LINES)
              .map((r) => `${JSON.stringify(r, plain)}\n`)
              .join(''),
          );
        }
      }
      rowStart = rowEnd;
    }
  } catch (cause) {
    throw broken(file, cause);
  }
}

/** @throws SluiceError input_not_found | truncated_input: the file is no whole Parquet file */
export async function rowGroups(file: string): Promise<RowGroup[]> {
  return (await opened(file)).metadata.row_groups.map(groupOf);
}

function groupOf({ columns, num_rows }: FileMetaData['row_groups'][number]): RowGroup {
  const of = columns.flatMap(({ meta_data: data }) => (data ? [data] : []));
  return {
    rows: Number(num_rows),
    byte: Math.min(...of.map((c) => Number(c.dictionary_page_offset ?? c.data_page_offset))),
    bytes: of.reduce((sum, c) => sum + Number(c.total_compressed_size), 0),
  };
}

async function opened(file: string | RandomAccess) {
  if (typeof file !== 'string') return openedAt(file);
  const present = await stat(file).catch(() => null);
  if (!present?.isFile()) throw new SluiceError('input_not_found', `${file} cannot be opened`);
  try {
    const buffer = await asyncBufferFromFile(file);
    return { buffer, metadata: await parquetMetadataAsync(buffer) };
  } catch (cause) {
    throw broken(file, cause);
  }
}

async function openedAt(file: RandomAccess) {
  const { byteLength } = file;
  const slice = async (start: number, end = byteLength) => (await file.slice(start, end)).buffer;
  try {
    const metadata = await parquetMetadataAsync({ byteLength, slice });
    return { buffer: { byteLength, slice }, metadata };
  } catch (cause) {
    throw broken(file, cause);
  }
}

function broken(file: string | RandomAccess, cause: unknown): SluiceError {
  if (cause instanceof SluiceError) return cause;
  const why = cause instanceof Error ? cause.message : cause;
  return new SluiceError(
    'truncated_input',
    `${typeof file === 'string' ? file : file.name} is no whole Parquet file: ${why}`,
    { cause },
  );
}

/** Whole numbers beyond 2^53 keep their digits as text; dates were made texts by JSON before. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return null;
  return value === undefined ? null : value;
}
