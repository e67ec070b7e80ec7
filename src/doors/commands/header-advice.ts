// Suggests how to declare an input whose header does not match the model. The suggestion uses the flags or keys of the
// command that reads the input.
import { type ErrorDetail, type SluiceError, terminalText } from '../../core/errors.ts';
import { shellWord } from '../../core/shell-word.ts';

/** Maximum number of lines about the errors in a header row. */
const MOST_SHOWN = 20;
/** Commands whose input is declared in a pipeline file. */
const OF_PIPELINES = /\b(?:run|lint|test)$/;

/**
 * Returns one line per error, followed by advice on how to accept the input unchanged; '' for errors not about a
 * header. `command`: as in `reportError`.
 */
export function headerAdvice({ code, message, details, extra }: SluiceError, command: string): string {
  const delimiter = code === 'wrong_delimiter' ? extra.delimiter : undefined;
  if (typeof delimiter === 'string')
    return line(
      OF_PIPELINES.test(command) ? `Add to the source: delimiter: ${delimiter}` : `Add: --delimiter ${delimiter}`,
    );
  if (code !== 'header_mismatch') return '';
  if (details.length === 0) return (isUnnamed(message) ? line(unnamed(command)) : '') + preamble(message, command);
  // Without a terminal, the lines may end up in a log, so the plain message is used instead of the text for terminals.
  const textOf = process.stderr.isTTY ? terminalText : ({ message }: ErrorDetail) => message;
  const shown = details.slice(0, MOST_SHOWN).map((detail) => line(textOf(detail)));
  if (details.length > MOST_SHOWN) shown.push(line(`and ${details.length - MOST_SHOWN} more`));
  const inPipeline = OF_PIPELINES.test(command);
  const renaming = renameTemplate(details, inPipeline);
  if (renaming !== '') shown.push(line(`If the input has other names for these columns, declare them: ${renaming}`));
  const declared = declarations(details, inPipeline);
  if (declared !== '') shown.push(line(`To accept the input as it is, add: ${declared}`));
  return shown.join('');
}

/** The first line of an error. If details are printed on lines of their own, the first line does not repeat them. */
export const headerHeadline = ({ code, message, details }: SluiceError): string =>
  code === 'header_mismatch' && details.length > 0 ? 'the header does not match the columns of the model' : message;

const line = (text: string): string => `  ${text}\n`;
const isUnnamed = (message: string): boolean => /without a header row$/.test(message);

/** Advice for the case that other lines precede the header row; '' if the error does not suggest that. */
function preamble(message: string, command: string): string {
  if (!/(?:not a table|without a header row)$/.test(message)) return '';
  const declaration = OF_PIPELINES.test(command) ? 'add to its source: skip_lines: N' : 'add: --skip-lines N';
  return line(`If other lines precede the header row, ${declaration}`);
}

const unnamed = (command: string): string =>
  OF_PIPELINES.test(command)
    ? 'If the file has no header row, add to its source: header: false, columns: { names: [a, b, …] }'
    : 'If the file has no header row, add: --columns a,b,…';

function declarations(details: SluiceError['details'], inPipeline: boolean): string {
  const renamed: [string, string][] = [];
  const constants: string[] = [];
  let [trim, ignore] = [false, false];
  for (const { code, column, suggestion } of details) {
    if (code === 'missing_column' && column !== undefined) {
      if (suggestion === undefined) constants.push(column);
      else if (suggestion.trim() === column) trim = true;
      else renamed.push([column, suggestion]);
    } else if (code === 'unexpected_column' || code === 'outcome_present') ignore = true;
  }
  return inPipeline ? asYaml({ renamed, constants, trim, ignore }) : asFlags({ renamed, constants, trim, ignore });
}

/**
 * A template for renaming columns, if the input has enough unknown columns for all missing columns; otherwise ''. The
 * template does not contain the names of the input's columns: without a header row, these names would be values of the
 * first row.
 */
function renameTemplate(details: SluiceError['details'], inPipeline: boolean): string {
  const missing = details.flatMap(({ code, column, suggestion }) =>
    code === 'missing_column' && column !== undefined && suggestion === undefined ? [column] : [],
  );
  const unknown = details.filter(({ code }) => code === 'unexpected_column').length;
  if (missing.length === 0 || unknown < missing.length) return '';
  if (inPipeline) return `source: { columns: { rename: { ${missing.map((name) => `${name}: NAME`).join(', ')} } } }`;
  return `--rename ${missing.map((name) => `${shellWord(name)}=NAME`).join(',')}`;
}

interface Declarations {
  renamed: readonly (readonly [string, string])[];
  constants: readonly string[];
  trim: boolean;
  ignore: boolean;
}

function asFlags({ renamed, constants, trim, ignore }: Declarations): string {
  const flags = [
    ...(trim ? ['--trim'] : []),
    ...(renamed.length > 0 ? ['--rename', shellWord(renamed.map((pair) => pair.join('=')).join(','))] : []),
    ...(constants.length > 0 ? ['--constants', constants.map((name) => `${shellWord(name)}=VALUE`).join(',')] : []),
    ...(ignore ? ['--ignore', "'*'"] : []),
  ];
  return flags.join(' ');
}

function asYaml({ renamed, constants, trim, ignore }: Declarations): string {
  const pairs = (of: readonly (readonly [string, string])[]) => `{ ${of.map(([a, b]) => `${a}: ${b}`).join(', ')} }`;
  const columns = [
    ...(renamed.length > 0 ? [`rename: ${pairs(renamed.map(([a, b]) => [a, JSON.stringify(b)]))}`] : []),
    ...(constants.length > 0 ? [`constants: ${pairs(constants.map((name) => [name, 'VALUE']))}`] : []),
    ...(ignore ? ['ignore: "*"'] : []),
  ];
  const keys = [...(trim ? ['trim: true'] : []), ...(columns.length > 0 ? [`columns: { ${columns.join(', ')} }`] : [])];
  return keys.length === 0 ? '' : `source: { ${keys.join(', ')} }`;
}
