// Contradictions within the declarations of an input, whether from a pipeline, flags or a program.
import type { FileFormat } from '../core/file-format.ts';
import type { PostgresSource, Source } from './pipeline-schema.ts';

/** All but a query, which can say everything itself. */
type Declaring = Exclude<Source, PostgresSource>;

/** A key of the source, and what is wrong with it. */
interface Contradiction {
  key: string;
  message: string;
}

type Say = (key: string, message: string) => void;

/** `format`: of the input; null where it is not known yet. `passthrough`: what is copied. */
export function declaredContradictions(
  source: Source,
  format: FileFormat | null,
  passthrough: readonly string[] | '*',
): Contradiction[] {
  if (source.type === 'postgres') return [];
  const found: Contradiction[] = [];
  const say: Say = (key, message) => found.push({ key, message: `${key}: ${message}` });
  if (source.thousands !== undefined && source.thousands === (source.decimal ?? 'point')) {
    const why = source.decimal === undefined ? 'the decimal point, unless decimal says otherwise' : 'that of decimal';
    say('thousands', `is the same mark as ${why}`);
  }
  if (source.type !== 'kafka') {
    judgeHeader(source, format, say);
    if (format === 'parquet' && source.encoding !== undefined) say('encoding', 'a Parquet file is no text');
    if (format === 'arrow' && source.encoding !== undefined) say('encoding', 'Arrow is no text');
  }
  judgeNames(source, passthrough, say);
  return found;
}

function judgeHeader(
  { header, columns }: Exclude<Declaring, { type: 'kafka' }>,
  format: FileFormat | null,
  say: Say,
): void {
  const names = columns?.names;
  const delimited = format === null || format === 'csv' || format === 'tsv';
  if ((header !== undefined || names !== undefined) && !delimited) {
    say(header === undefined ? 'columns' : 'header', 'only csv and tsv have a header row or none');
  } else if (header === false && names === undefined)
    say('header', 'false needs the names of the fields: columns.names');
  else if (names !== undefined && header !== false)
    say('columns', 'names are for an input without a header row: header: false');
  const twice = names?.find((name, i) => name !== '' && names.indexOf(name) !== i);
  if (twice !== undefined) say('columns', `names: ${twice} is there twice`);
}

function judgeNames({ columns }: Declaring, passthrough: readonly string[] | '*', say: Say): void {
  const { rename = {}, ignore = [], constants = {} } = columns ?? {};
  const names = columns !== undefined && 'names' in columns ? (columns.names ?? []) : [];
  const there = Object.values(rename);
  const twice = there.find((name, i) => there.indexOf(name) !== i);
  if (twice !== undefined) say('columns', `rename: two columns are called ${twice} in the input`);
  if (ignore === '*' && passthrough === '*') say('columns', 'ignore: * leaves nothing that passthrough: * could copy');
  for (const [name, called] of Object.entries(rename)) {
    if (ignore !== '*' && ignore.includes(called)) say('columns', `ignore: ${called} is renamed, too`);
    if (Object.hasOwn(constants, name))
      say('columns', `constants: ${name} is renamed, too: it is in the input, or it is not`);
  }
  for (const name of Object.keys(constants)) {
    const ignored = ignore !== '*' && ignore.includes(name);
    if (names.includes(name) && !ignored) say('columns', `constants: ${name} is one of the names of the input`);
  }
}
