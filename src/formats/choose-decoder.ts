// The choice of a decoder: the fast path where it serves the stream, the reference (csv-parse, JSON.parse) otherwise.
import type { DeclaredColumns, TextRules } from '../core/input-declaration.ts';
import type { ColumnReader } from '../inference/encode/column-reader.ts';
import type { DirectEncoding } from '../inference/encode/encoder.ts';
import { ColumnsDecoder } from './columns/columns-decoder.ts';
import { ConstantColumns } from './decode/constant-columns.ts';
import type { Decoder } from './decode/decoder.ts';
import { ROW_KERNEL_AFTER } from './decode/kernel-rows.ts';
import { CsvParseDecoder, type DelimitedLayout } from './delimited/csv-parse-decoder.ts';
import { DelimitedDecoder } from './delimited/delimited-decoder.ts';
import { JsonBytesDecoder } from './json/json-bytes-decoder.ts';
import { JsonDecoder, type JsonLayout } from './json/json-decoder.ts';

export type DecoderInput = DeclaredParts &
  ({ format: 'delimited'; layout: DelimitedLayout } | { format: 'json'; layout: JsonLayout });

/** Declarations that readers and decoders need in addition to the layout. */
export interface DeclaredParts {
  /** What its texts mean beyond what the package says: the readers are made by it. */
  texts?: TextRules;
  /** Columns of the model that the layout does not have. */
  constants?: DeclaredColumns['constants'];
}

/** `eager`: with the row kernel from the first row on, where `fast` makes it when it pays; `quoting`: with one that also reads quotes. */
export type DecoderChoice = 'fast' | 'eager' | 'quoting' | 'reference';

/**
 * All choices give the same answers; the reference is there to test that. `direct`: where a decoder that can may write numbers
 * instead of into the columns of the batch.
 */
export function createDecoder(
  readers: readonly ColumnReader[],
  input: DecoderInput,
  choice: DecoderChoice,
  direct: DirectEncoding | null = null,
): Decoder {
  const { constants } = input;
  if (!constants) return decoderOf(readers, input, choice, direct);
  const open = (given: readonly ColumnReader[], own: DirectEncoding | null) => decoderOf(given, input, choice, own);
  return new ConstantColumns({ readers, constants, direct, open });
}

function decoderOf(
  readers: readonly ColumnReader[],
  input: DecoderInput,
  choice: DecoderChoice,
  direct: DirectEncoding | null,
): Decoder {
  if (input.format === 'json') {
    if (choice === 'reference') return new JsonDecoder(readers, input.layout);
    const records = JsonBytesDecoder.serves(readers, input.layout)
      ? new JsonBytesDecoder(readers, input.layout, choice === 'fast' ? ROW_KERNEL_AFTER : 0, direct)
      : new JsonDecoder(readers, input.layout);
    return new ColumnsDecoder(readers, input.layout, records);
  }
  return choice !== 'reference' && DelimitedDecoder.serves(input.layout)
    ? new DelimitedDecoder(
        readers,
        input.layout,
        choice === 'fast' ? ROW_KERNEL_AFTER : 0,
        direct,
        choice === 'quoting',
      )
    : new CsvParseDecoder(readers, input.layout);
}
