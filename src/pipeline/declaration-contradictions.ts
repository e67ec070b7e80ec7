// Finds contradictions within the declarations of an input, whether they come from a pipeline, from flags or from a
// program.
import { isEndless, isQuery } from '../connectors/connectors.ts';
import type { FileFormat } from '../core/file-format.ts';
import { formatEntry, isColumnar, isDelimited } from '../formats/formats.ts';
import type { Source } from './pipeline-schema.ts';

/** All sources except queries, because SQL can express the same. */
type Declaring = Extract<Source, { trim?: unknown }>;

/** The key of the source that must be changed, and the error. */
interface Contradiction {
  key: string;
  message: string;
}

type Say = (key: string, message: string) => void;

/** `format`: format of the input; null if not known yet. `passthrough`: the columns to pass through. */
export function declaredContradictions(
  source: Source,
  format: FileFormat | null,
  passthrough: readonly string[] | '*',
): Contradiction[] {
  if (isQuery(source)) return [];
  const declaring = source as Declaring;
  const found: Contradiction[] = [];
  const say: Say = (key, message) => found.push({ key, message: `${key}: ${message}` });
  if (declaring.thousands !== undefined && declaring.thousands === (declaring.decimal ?? 'point')) {
    const why = declaring.decimal === undefined ? 'the decimal point: set decimal' : 'decimal';
    say('thousands', `is the same separator as ${why}`);
  }
  if (!isEndless(source)) judgeBytes(declaring as DeclaringBytes, format, say);
  judgeNames(declaring, passthrough, say);
  return found;
}

/** Declarations that only a byte stream can have. */
type DeclaringBytes = Extract<Declaring, { header?: unknown }>;

function judgeBytes(
  { header, columns, encoding, skip_lines }: DeclaringBytes,
  format: FileFormat | null,
  say: Say,
): void {
  const names = columns?.names;
  const delimited = format === null || isDelimited(format);
  if ((header !== undefined || names !== undefined) && !delimited) {
    say(header === undefined ? 'columns' : 'header', 'header: applies to csv and tsv only');
  } else if (header === false && names === undefined) say('header', 'header: false needs columns.names');
  else if (names !== undefined && header !== false) say('columns', 'names require header: false');
  if (skip_lines !== undefined && !delimited) say('skip_lines', 'applies to csv and tsv only');
  const twice = names?.find((name, i) => name !== '' && names.indexOf(name) !== i);
  if (twice !== undefined) say('columns', `names: ${twice} occurs twice`);
  if (format !== null && encoding !== undefined && isColumnar(format)) {
    say('encoding', `${formatEntry(format).title} is not a text format`);
  }
}

function judgeNames({ columns }: Declaring, passthrough: readonly string[] | '*', say: Say): void {
  const { rename = {}, ignore = [], constants = {} } = columns ?? {};
  const names = columns !== undefined && 'names' in columns ? (columns.names ?? []) : [];
  const there = Object.values(rename);
  const twice = there.find((name, i) => there.indexOf(name) !== i);
  if (twice !== undefined) say('columns', `rename: two columns have the name ${twice} in the input`);
  if (ignore === '*' && passthrough === '*') say('columns', 'ignore: * and passthrough: * are mutually exclusive');
  for (const [name, called] of Object.entries(rename)) {
    if (ignore !== '*' && ignore.includes(called)) say('columns', `ignore: ${called} is also renamed`);
    if (Object.hasOwn(constants, name)) say('columns', `constants: ${name} is also renamed: declare only one of them`);
  }
  for (const name of Object.keys(constants)) {
    const ignored = ignore !== '*' && ignore.includes(name);
    if (names.includes(name) && !ignored)
      say('columns', `constants: ${name} is also a column of the input: declare only one of them`);
  }
}
