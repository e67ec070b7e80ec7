// A Parquet file as lines of JSON: row group by row group, so memory is that of the largest group.
import { stat } from 'node:fs/promises';
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { SluiceError } from '../../core/errors.ts';

/** Lines handed on at once. */
const LINES = 2000;

/** @throws SluiceError input_not_found | truncated_input: the file is no whole Parquet file */
export async function* parquetLines(file: string): AsyncGenerator<Uint8Array> {
  const present = await stat(file).catch(() => null);
  if (!present?.isFile()) throw new SluiceError('input_not_found', `${file} cannot be opened`);
  try {
    const buffer = await asyncBufferFromFile(file);
    const metadata = await parquetMetadataAsync(buffer);
    let rowStart = 0;
    for (const group of metadata.row_groups) {
      const rowEnd = rowStart + Number(group.num_rows);
      const rows = await parquetReadObjects({ file: buffer, metadata, rowStart, rowEnd, compressors });
      for (let i = 0; i < rows.length; i += LINES) {
        yield Buffer.from(
          rows
            .slice(i, i + LINES)
            .map((r) => `${JSON.stringify(r, plain)}\n`)
            .join(''),
        );
      }
      rowStart = rowEnd;
    }
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw new SluiceError(
      'truncated_input',
      `${file} is no whole Parquet file: ${cause instanceof Error ? cause.message : cause}`,
      { cause },
    );
  }
}

/** Whole numbers beyond 2^53 keep their digits as text; dates were made texts by JSON before. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return null;
  return value === undefined ? null : value;
}
