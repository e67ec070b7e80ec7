// Resolves the inputs and outputs of a run to names and formats.

import { connectorOf } from '../connectors/connectors.ts';
import type { End } from '../connectors/contract/connector.ts';
import { STDIO } from '../connectors/stdio/stdio-connector.ts';
import { transportOf } from '../connectors/stored-bytes.ts';
import { SluiceError } from '../core/errors.ts';
import type { Compression, FileFormat } from '../core/file-format.ts';
import { withoutSidecars } from '../core/file-names.ts';
import type { InputDeclaration } from '../core/input-declaration.ts';
import type { InputFormat } from '../engine/stream-spec.ts';
import { DELIMITERS } from '../formats/delimited/header.ts';
import { formatEntry, isColumnar, isDelimited, KNOWN_ENDINGS, namedFormat } from '../formats/formats.ts';
import { type TotalsSpec, totalsOf } from './control-totals.ts';
import type { PlannedInput } from './shards/shard-plan.ts';
import { type DeclaringSource, declarationOf, refuseUnfit } from './spec.ts';

/** One input or output, resolved from its spec and its name. */
export interface Endpoint {
  /** Path, or `-`. */
  name: string;
  format: FileFormat;
  compression: Compression;
  /** Delimiter of csv and tsv. */
  delimiter: string;
  /** A query to read rows from, instead of reading bytes. `name` then appears only in messages. */
  query?: End;
  /** Declaration of the input's format. Default: none. */
  declared?: InputDeclaration;
  /** Lines in front of the header row that are skipped. Default: none. */
  skipLines?: number;
  /** Read only this piece of the file. Default: the whole file. */
  planned?: PlannedInput;
  /** Control totals to check the input against. Default: none. */
  totals?: TotalsSpec;
  /**
   * Parquet and Arrow only: maximum length of a row as text, in bytes. The default of 64 MiB fits files written by
   * Sluice.
   */
  recordBytes?: number | undefined;
  /** Parquet and Arrow only: read just this row, counted from 1. Default: all rows. */
  onlyRow?: number;
}

/**
 * The inputs of a source: a single input, or all that match a pattern, sorted by name. `choose` selects from the
 * matching names; the default excludes sidecar files.
 * @throws SluiceError input_not_found | usage: an unknown file extension
 */
export async function inputsOf(
  source: End,
  choose: (names: readonly string[]) => string[] = withoutSidecars,
): Promise<Endpoint[]> {
  const connector = connectorOf(source);
  if (!connector.inputs) {
    return [{ name: connector.nameOf(source), format: 'csv', compression: 'none', delimiter: ',', query: source }];
  }
  const names = await connector.inputs(source, choose, async (pattern) =>
    (await transportOf(pattern)).matching(pattern),
  );
  return names.map((name) => endpoint(name, source as FormatSpec, 'csv'));
}

/** Whether the source is a pattern whose matches are the inputs. */
export const isSeveral = (source: End, inputs: readonly Endpoint[]): boolean => {
  const connector = connectorOf(source);
  return connector.isPattern?.(source) === true && inputs[0]!.name !== connector.nameOf(source);
};

/**
 * The output for an input; null if the sink writes the predictions of all inputs to one output.
 * @throws SluiceError usage: an unknown file extension
 */
export function outputEndpoint(sink: End, input: Pick<Endpoint, 'name' | 'query'>): Endpoint | null {
  const output = connectorOf(sink).output?.(sink);
  return output ? endpoint(outputName(output.path, input), sink as FormatSpec, output.otherwise) : null;
}

/**
 * Replaces `{name}` in a path with the name of the input, without its folder and extensions. The name is inserted as it
 * is, even if it contains `$&` or `$$`.
 */
export const outputName = (pattern: string, input: Pick<Endpoint, 'name' | 'query'>): string =>
  pattern.replaceAll('{name}', () =>
    input.query ? input.name : input.name === STDIO ? 'stdin' : namedFormat(input.name).stem,
  );

interface FormatSpec extends DeclaringSource, TotalsSpec {
  format?: FileFormat | undefined;
  compression?: Compression | undefined;
  delimiter?: keyof typeof DELIMITERS | undefined;
  skip_lines?: number | undefined;
}

/**
 * Resolves the format of a file. The spec takes precedence over the name. A name without an extension (a pipe, a
 * device) has the format `otherwise`.
 * @throws SluiceError usage: an unknown extension, and no format is configured
 */
export function endpoint(name: string, said: FormatSpec, otherwise: FileFormat): Endpoint {
  const named = namedFormat(name);
  const format = said.format ?? named.format ?? (named.ending === '' ? otherwise : null);
  if (format === null) {
    throw new SluiceError(
      'usage',
      `${name}: ${named.ending} is not a format; use ${KNOWN_ENDINGS}, or specify the format`,
    );
  }
  const delimiter = DELIMITERS[said.delimiter ?? (format === 'tsv' ? 'tab' : 'comma')];
  const declared = declarationOf(said);
  const totals = totalsOf(said);
  const compression = said.compression ?? named.compression;
  const { skip_lines: skipLines = 0 } = said;
  if (skipLines > 0 && !isDelimited(format)) {
    throw new SluiceError('usage', `${name}: the option skip_lines is supported for csv and tsv only`);
  }
  const found = {
    ...{ name, format, compression, delimiter },
    ...(totals === null ? {} : { totals }),
    ...(skipLines === 0 ? {} : { skipLines }),
  };
  if (declared === null) return found;
  refuseUnfit(declared, format);
  return { ...found, declared };
}

/** The format in which the engine reads an input. */
export function inputFormatOf({
  format,
  delimiter,
  declared,
}: Pick<Endpoint, 'format' | 'delimiter' | 'declared'>): InputFormat {
  const { records } = formatEntry(format);
  return {
    ...(records === 'delimited'
      ? { format: records, delimiter }
      : records === 'json'
        ? { format: records }
        : { format: records, ...(isColumnar(format) ? { table: true } : {}) }),
    ...(declared ? { declared } : {}),
  };
}
