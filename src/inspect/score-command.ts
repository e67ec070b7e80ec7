// Builds the `sluice score` command for a file from the declarations that its inspection found.
import type { Compression, FileFormat } from '../core/file-format.ts';
import type { EncodingName, NumberNotation } from '../core/input-declaration.ts';
import { shellWord } from '../core/shell-word.ts';
import type { DelimiterName } from '../formats/delimited/header.ts';
import { namedFormat } from '../formats/formats.ts';
import type { DeclaringSource } from '../runs/spec.ts';

/** The declarations that a command needs so that the file is read correctly. */
export interface ReadingPlan {
  file: string;
  model: string;
  registry?: string | undefined;
  output: string;
  format: FileFormat;
  compression: Compression;
  delimiter: DelimiterName;
  encoding: EncodingName;
  /** Number of lines in front of the header row or the first row. */
  skip: number;
  /** Number of lines at the end that other programs must remove before `sluice score -` reads the input. */
  cut: number;
  /** First field of a total line that is declared as a trailer; null: no trailer is declared. */
  trailer: string | null;
  /** Names of the fields if the input has no header row that can be used; null: it has a header row. */
  names: readonly string[] | null;
  rename: ReadonlyMap<string, string>;
  ignore: readonly string[] | '*';
  constants: Readonly<Record<string, string | number | boolean>>;
  notation: NumberNotation;
  trim: boolean;
  nullValues: readonly string[];
}

/** Matches control characters, which could manipulate a terminal. */
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/** Whether a text can be an item of a comma-separated flag on one line. */
export const isListable = (text: string): boolean => text !== '' && !text.includes(',') && !CONTROL.test(text);

/** Whether other programs must remove lines before the input is scored. */
export const isPiped = ({ cut }: Pick<ReadingPlan, 'cut'>): boolean => cut > 0;

const isWide = (encoding: EncodingName): boolean => encoding.startsWith('utf-16');

/**
 * The declarations as keys of a pipeline source, with which the sample is decoded in the same way as by the command.
 */
export function declaringSource(plan: ReadingPlan): DeclaringSource {
  const { names, rename, ignore, constants, notation, trim, nullValues } = plan;
  const columns = {
    ...(names === null ? {} : { names: [...names] }),
    ...(rename.size > 0 ? { rename: Object.fromEntries(rename) } : {}),
    ...(ignore.length > 0 ? { ignore: ignore === '*' ? ('*' as const) : [...ignore] } : {}),
    ...(Object.keys(constants).length > 0 ? { constants } : {}),
  };
  return {
    ...(Object.keys(columns).length > 0 ? { columns } : {}),
    ...(notation.decimal === 'point' ? {} : { decimal: notation.decimal }),
    ...(notation.thousands === null ? {} : { thousands: notation.thousands }),
    ...(trim ? { trim } : {}),
    ...(nullValues.length > 0 ? { null_values: [...nullValues] } : {}),
  };
}

/** The command line, preceded by a pipe of programs that remove lines if necessary. */
export function scoreCommand(plan: ReadingPlan): string {
  const input = isPiped(plan) ? '-' : fileWord(plan.file);
  const flags = [...formatFlags(plan), ...declarationFlags(plan)];
  const named = [
    ...['--model', shellWord(plan.model)],
    ...(plan.registry === undefined ? [] : ['--registry', shellWord(plan.registry)]),
    ...['-o', shellWord(plan.output)],
  ];
  return [...lineFilters(plan), ['sluice', 'score', input, ...named, ...flags].join(' ')].join(' | ');
}

/** The file name, quoted for the shell and written such that no program interprets it as a flag. */
const fileWord = (file: string): string => shellWord(file.startsWith('-') ? `./${file}` : file);

function lineFilters(plan: ReadingPlan): string[] {
  if (!isPiped(plan)) return [];
  const { compression, encoding, cut } = plan;
  const filters: string[] = [];
  const add = (command: string) => filters.push(filters.length === 0 ? `${command} ${fileWord(plan.file)}` : command);
  if (compression !== 'none') add(compression === 'gzip' ? 'gzip -dc' : 'zstd -dc');
  // UTF-16 must be converted first, because its lines do not end with a single byte.
  if (isWide(encoding)) add(`iconv -f ${encoding.toUpperCase()} -t UTF-8`);
  // The locale C is needed, because in other locales sed may reject bytes that are not valid text.
  for (let i = 0; i < cut; i++) add("LC_ALL=C sed '$d'");
  return filters;
}

function formatFlags(plan: ReadingPlan): string[] {
  const { format, compression, delimiter, encoding, file, skip } = plan;
  const piped = isPiped(plan);
  const named = piped ? namedFormat('-') : namedFormat(file);
  const isDelimited = format === 'csv' || format === 'tsv';
  const usual = format === 'tsv' ? 'tab' : 'comma';
  return [
    ...(named.format === format ? [] : ['--input-format', format]),
    ...(piped || named.compression === compression ? [] : ['--input-compression', compression]),
    ...(isDelimited && delimiter !== usual ? ['--delimiter', delimiter] : []),
    ...(skip > 0 ? ['--skip-lines', String(skip)] : []),
    ...(encoding === 'utf-8' || (piped && isWide(encoding)) ? [] : ['--encoding', encoding]),
  ];
}

export const notationFlags = ({ decimal, thousands }: NumberNotation): string[] => [
  ...(decimal === 'point' ? [] : ['--decimal', decimal]),
  ...(thousands === null ? [] : ['--thousands', thousands]),
];

/** The flags of declarations about names and texts. */
function declarationFlags(plan: ReadingPlan): string[] {
  const { names, rename, ignore, constants, notation, trim, nullValues, trailer } = plan;
  const list = (flag: string, items: readonly string[]) =>
    items.length === 0 ? [] : [flag, shellWord(items.join(','))];
  return [
    ...(trailer === null ? [] : ['--trailer', shellWord(trailer)]),
    ...(trim ? ['--trim'] : []),
    ...notationFlags(notation),
    ...list('--null-values', nullValues),
    ...list('--columns', names ?? []),
    ...list(
      '--rename',
      [...rename].map(([column, name]) => `${column}=${name}`),
    ),
    ...list(
      '--constants',
      Object.entries(constants).map(([column, value]) => `${column}=${value}`),
    ),
    ...(ignore === '*' ? ['--ignore', "'*'"] : list('--ignore', ignore)),
  ];
}
