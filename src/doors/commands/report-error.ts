// How an error is told at the command line: what is wrong on one line, what to do about it on the next.
import { asSluiceError, SluiceError, toldError } from '../../core/errors.ts';
import { exitCodeOf } from './exit-codes.ts';

const TOLD_ROWS = 5;

/**
 * Tells an error on standard error and returns its exit code. `command` is the command as it was called (`sluice model add`):
 * whoever mistyped an option is sent to its help, which would push the mistake off the screen if it were printed here.
 */
export function reportError(error: unknown, command = 'sluice'): number {
  const known = error instanceof SluiceError;
  const e = asSluiceError(error, 'internal_error');
  const action = e.code === 'usage' ? helpLine(command) : e.entry.action;
  const says = e.code === 'gate_stopped' ? toldError(e) : `${e.message} [${e.code}]`;
  process.stderr.write(`sluice: ${says}\n${rowsOf(e)}  ${action}\n`);
  if (!known && error instanceof Error && error.stack) process.stderr.write(`${error.stack}\n`);
  return exitCodeOf(e);
}

/** The first rows at fault, one a line, of an input that cannot be used for them: there is no list that says it. */
function rowsOf({ code, details }: SluiceError): string {
  if (code !== 'nothing_scored' && code !== 'outcomes_invalid') return '';
  const lines = details
    .filter((d) => d.row !== undefined)
    .slice(0, TOLD_ROWS)
    .map((d) => `  row ${d.row}${d.column === undefined ? '' : `, ${d.column}`}: ${d.message} [${d.code}]\n`);
  return lines.join('');
}

export const helpLine = (command: string): string => `run \`${command} --help\``;

/** What the parser of the command line has to say, as a SluiceError would be told: on one line, without "error:". */
export function parserMistake(text: string): string {
  const [first, ...more] = text.trim().split('\n');
  const hint = more.map((line) => line.replace(/^\(D/, '(d')).join(' ');
  return `sluice: ${first!.replace(/^error: /, '')}${hint === '' ? '' : ` ${hint}`} [usage]\n`;
}
