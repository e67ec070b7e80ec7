// What a spec declares of its input, as the engine takes it.
import { declaredContradictions } from '../config/declared-contradictions.ts';
import type { Source, UploadSource } from '../config/pipeline-schema.ts';
import { SluiceError } from '../core/errors.ts';
import type { FileFormat } from '../core/file-format.ts';
import type { EncodingName, InputDeclaration } from '../core/input-declaration.ts';

/** The keys of a source that declare something. */
export type DeclaringSource = Partial<Pick<UploadSource, 'decimal' | 'thousands' | 'trim' | 'null_values'>> & {
  columns?: UploadSource['columns'];
  encoding?: EncodingName | undefined;
};

/** What a source of any type declares; a query declares nothing, because it can say everything itself. */
export const declaredBy = (source: Source): InputDeclaration | null =>
  source.type === 'postgres' ? null : declarationOf(source);

/** null: nothing is declared. */
export function declarationOf(source: DeclaringSource): InputDeclaration | null {
  const { decimal = 'point', thousands = null, trim = false, null_values: nullValues = [], columns } = source;
  const texts =
    decimal === 'point' && thousands === null && !trim && nullValues.length === 0
      ? null
      : { decimal, thousands, trim, nullValues };
  const encoding = source.encoding === undefined || source.encoding === 'utf-8' ? null : source.encoding;
  if (texts === null && encoding === null && columns === undefined) return null;
  const { rename = {}, ignore = [], constants = {} } = columns ?? {};
  const names = columns?.names ?? null;
  return { columns: columns === undefined ? null : { names, rename, ignore, constants }, texts, encoding };
}

/** Of a pattern only the name of a file tells its format. @throws SluiceError usage: what was declared is not for this one */
export function refuseUnfit({ encoding, columns }: InputDeclaration, format: FileFormat): void {
  if (encoding !== null && format === 'parquet') throw new SluiceError('usage', 'encoding: a Parquet file is no text');
  if (encoding !== null && format === 'arrow') throw new SluiceError('usage', 'encoding: Arrow is no text');
  if (columns?.names && format !== 'csv' && format !== 'tsv') {
    throw new SluiceError('usage', 'columns: names are for csv and tsv, where there may be no header row');
  }
}

/** @throws SluiceError usage: declarations that contradict themselves */
export function refuseContradictions(
  source: Source,
  format: FileFormat | null,
  passthrough: readonly string[] | '*',
): void {
  const found = declaredContradictions(source, format, passthrough);
  if (found.length > 0) throw new SluiceError('usage', found.map(({ message }) => message).join('\n'));
}
