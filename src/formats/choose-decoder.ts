// Creates the decoder of a stream: the fast path if it supports the stream, otherwise the reference (csv-parse, JSON.parse).
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
  /**
   * Declared missing, true and false texts, in addition to those of the package. The column readers are created with
   * them.
   */
  texts?: TextRules;
  /** Declared constant values of model columns that the input lacks. */
  constants?: DeclaredColumns['constants'];
  /** Model columns whose strings are decimals of a typed table; see `fitTable`. */
  decimals?: readonly string[];
}

/**
 * `fast`: assemble the row kernel after enough rows that it saves time. `eager`: use the row kernel from the first row.
 * `quoting`: as `eager`, with a row kernel that also reads quotes. `reference`: use the reference decoder.
 */
export type DecoderChoice = 'fast' | 'eager' | 'quoting' | 'reference';

/**
 * Creates a decoder. Every choice gives the same results; tests compare them with the reference. `direct`: model inputs
 * into which the decoder may write numbers instead of into the columns of the batch.
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
