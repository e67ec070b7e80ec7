// Prints the report of `sluice inspect` for a terminal.
import type { Guess, InspectedColumn, Inspection, MatchKind } from '../../inspect/inspection.ts';

const MATCHES: Readonly<Record<MatchKind, string>> = {
  declared: 'declared',
  constant: 'constant',
  exact: 'same name',
  spaces: 'same name with spaces',
  style: 'other style of the name',
  affix: 'name with an affix',
  spelling: 'similar name',
  position: 'position',
  missing: 'MISSING',
  open: 'QUESTION',
};

const count = (n: number, one: string): string => `${n.toLocaleString('en-US')} ${n === 1 ? one : `${one}s`}`;
const indented = (lines: readonly string[]): string[] => lines.map((line) => `  ${line}`);
const percent = (share: number | null): string => (share === null ? '–' : `${(100 * share).toFixed(1)} %`);

/** Formats rows as left-aligned columns. The last column is not padded, because it may be long. */
function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, c) => Math.max(...rows.map((row) => row[c]!.length)));
  return rows.map((row) =>
    row
      .map((cell, c) => cell.padEnd(widths[c]!))
      .join('  ')
      .trimEnd(),
  );
}

/**
 * Replaces control characters. Names and values come from the file, and control characters could change what the
 * terminal shows.
 */
const harmless = (line: string): string => line.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, '\ufffd');

/** The report. The last line of the report is the command that scores the file, or a template of the command. */
export function inspectionText(found: Inspection): string {
  const sections = [
    [`${found.file} for ${found.model}: ${extent(found)}`],
    aligned(facts(found)),
    ['Columns of the model:', ...indented(aligned(columnRows(found.columns)))],
    firstRowOf(found),
    rejectsOf(found),
    found.notes.length === 0 ? [] : ['Notes:', ...indented(found.notes)],
    questionsOf(found),
    problemsOf(found),
    commandOf(found),
  ];
  return sections
    .filter((lines) => lines.length > 0)
    .map((lines) => `${lines.map(harmless).join('\n')}\n`)
    .join('\n');
}

function extent({ inspected: { rows, whole_file, end_of_file } }: Inspection): string {
  if (whole_file) return `${count(rows, 'row')} inspected, the whole file`;
  return `the first ${count(rows, 'row')} inspected${end_of_file ? ', and the end of the file' : ''}`;
}

function facts(found: Inspection): string[][] {
  const rows: string[][] = [];
  const add = <T>(name: string, guess: Guess<T> | null, value = String(guess?.value)) => {
    if (guess) rows.push([name, value, `${guess.confidence}: ${guess.reason}`]);
  };
  const { skipped_lines: skipped } = found;
  add(
    'format',
    found.format,
    found.compression === 'none' ? found.format.value : `${found.format.value}, ${found.compression}`,
  );
  add('encoding', found.encoding);
  add('delimiter', found.delimiter);
  const before = skipped === 0 ? '' : `, after ${count(skipped, 'other line')}`;
  add('header', found.header, `${found.header?.value === 'row' ? 'header row' : 'none'}${before}`);
  add('total line', found.trailer);
  add('numbers', found.numbers);
  if (found.trim)
    rows.push(['spaces', 'around values or names', 'high: values can be read only if the spaces are trimmed']);
  for (const { text, count: n, columns } of found.null_values) {
    rows.push(['missing value', text, `${count(n, 'time')} in ${someOf(columns)}`]);
  }
  return rows;
}

/** The first names, followed by the number of the remaining names. */
const someOf = (names: readonly string[], most = 5): string =>
  names.length <= most ? names.join(', ') : `${names.slice(0, most).join(', ')} and ${names.length - most} more`;

const columnRows = (columns: readonly InspectedColumn[]): string[][] => [
  ['column', 'kind', 'in the file', 'found by', 'confidence', 'missing', 'unseen', 'rejected'],
  ...columns.map(({ column, kind, input, match, confidence, missing, unseen, rejected }) => [
    column,
    kind,
    input ?? '–',
    MATCHES[match],
    input === null ? '–' : confidence,
    percent(missing),
    percent(unseen),
    String(rejected),
  ]),
];

function firstRowOf({ first_row: row }: Inspection): string[] {
  if (row === null) return [];
  const pairs = row.map(({ column, value }) => [column, value]);
  return ['First row, with the names by position. Check it:', ...indented(aligned(pairs))];
}

function rejectsOf({ rejected, ignored, template }: Inspection): string[] {
  const unused = template === null ? 'Ignored columns' : 'Columns of the file without a counterpart';
  const lines = ignored.length === 0 ? [] : [`${unused}: ${someOf(ignored, 40)}`];
  if (rejected.rows === 0) return lines;
  const first = rejected.first.map(
    ({ row, column, code, message }) => `row ${row}${column === null ? '' : `, ${column}`}: ${message} [${code}]`,
  );
  return [...lines, `${count(rejected.rows, 'inspected row')} would be rejected:`, ...indented(first)];
}

/** One line for each column with its candidates, followed by a section for every other question. */
function questionsOf({ questions }: Inspection): string[] {
  const columns = questions.flatMap(({ column, answers }) => {
    if (column === null) return [];
    const candidates = answers.map(({ meaning }) => meaning.slice(`${column} is `.length));
    // Columns with the same name cannot be distinguished by --rename.
    const isRenamed = answers.every(({ flags }) => flags !== '');
    return [`${column}${isRenamed ? '=' : ': '}${candidates.join(', or ')}`];
  });
  const others = questions.filter(({ column }) => column === null);
  return [
    ...(columns.length === 0
      ? []
      : [
          'Question: which input columns are these? Candidates for --rename, the best one first:',
          ...indented(columns),
        ]),
    ...others.flatMap(({ question, answers }) => [
      `Question: ${question}`,
      ...answers.map(({ meaning, flags }) => `  - ${meaning}${flags === '' ? '' : `: ${flags}`}`),
    ]),
  ];
}

function problemsOf({ problems, template }: Inspection): string[] {
  // If a template is printed, the only problem is that some columns are undecided.
  return problems.length === 0 || template !== null
    ? []
    : ['No command can score this file correctly:', ...indented(problems)];
}

function commandOf(found: Inspection): string[] {
  const { command, alternatives, problems, questions, template } = found;
  if (command !== null) return [questions.length === 0 ? 'Run:' : 'Run only if the answers above allow it:', command];
  if (alternatives.length > 0) {
    return alternatives.flatMap((one, i) => [...(i === 0 ? [] : ['']), `If ${one.meaning}, run:`, one.command]);
  }
  if (template !== null) return [...templateAdvice(found), template];
  return problems.length > 0 ? [] : ['No command yet: answer the questions first.'];
}

function templateAdvice({ open_columns: open, questions }: Inspection): string[] {
  const have = `${count(open.length, 'column')} of the model ${open.length === 1 ? 'has' : 'have'}`;
  return [
    `No command yet: ${have} no counterpart by name.`,
    'Replace each ? by the name of its input column, then run inspect again with --rename.',
    'A value that is the same in all rows can be declared with --constants column=value instead.',
    ...(questions.some(({ column }) => column === null) ? ['The other questions above remain open.'] : []),
  ];
}
