// Prints errors on the command line: the message on the first line, the remedy on the next.
import { asSluiceError, SluiceError, toldError } from '../../core/errors.ts';
import { exitCodeOf } from './exit-codes.ts';
import { headerAdvice, headerHeadline } from './header-advice.ts';
import { inspectionHint } from './inspect-hint.ts';

const TOLD_ROWS = 5;

/**
 * Prints an error to standard error and returns its exit code. `command`: the command line without flags, such as
 * `sluice model add`. A usage error names the command that prints the help. The help itself would scroll the error off
 * the screen.
 */
export function reportError(error: unknown, command = 'sluice'): number {
  const known = error instanceof SluiceError;
  const e = asSluiceError(error, 'internal_error');
  const action = e.code === 'usage' ? usageAdvice(e.message, command) : e.entry.action;
  const says = e.code === 'gate_stopped' ? toldError(e) : `${headerHeadline(e)} [${e.code}]`;
  const advice = headerAdvice(e, command);
  const advised = advice === '' ? `  ${action}\n` : advice;
  process.stderr.write(`sluice: ${says}\n${rowsOf(e)}${advised}${inspectionHint(e)}`);
  if (!known && error instanceof Error && error.stack) process.stderr.write(`${error.stack}\n`);
  return exitCodeOf(e);
}

/**
 * The first invalid rows of a failed input, one per line. The rows are printed because the rejects file of a failed
 * input is not published.
 */
function rowsOf({ code, details }: SluiceError): string {
  if (code !== 'nothing_scored' && code !== 'outcomes_invalid') return '';
  const lines = details
    .filter((d) => d.row !== undefined)
    .slice(0, TOLD_ROWS)
    .map((d) => `  row ${d.row}${d.column === undefined ? '' : `, ${d.column}`}: ${d.message} [${d.code}]\n`);
  return lines.join('');
}

/** Matches the position of an error in a pipeline file. */
const IN_PIPELINE = /\.ya?ml:\d{1,9}:\d{1,9}$/;
const OF_PIPELINES = new Set(['run', 'lint', 'test', 'dlq']);

/** The help of a command lists only flags; the keys of a pipeline are listed on a documentation page. */
const usageAdvice = (message: string, command: string): string =>
  IN_PIPELINE.test(message.split(' ', 1)[0]!) && command.split(' ').some((word) => OF_PIPELINES.has(word))
    ? 'docs/pipelines.md lists all keys of a pipeline'
    : helpLine(command);

export const helpLine = (command: string): string => `run \`${command} --help\``;

/** Formats a message of the command-line parser like a SluiceError: on one line, and without "error:". */
export function parserMistake(text: string): string {
  const [first, ...more] = text.trim().split('\n');
  const hint = more.map((line) => line.replace(/^\(D/, '(d')).join(' ');
  return `sluice: ${first!.replace(/^error: /, '')}${hint === '' ? '' : ` ${hint}`} [usage]\n`;
}
