// Writes docs/errors.md from the catalogue; a test compares the page with it.
import { ERRORS, type ErrorEntry } from '../../src/core/errors.ts';

/** The page as Markdown. */
export function errorsPage(): string {
  const entries = Object.entries(ERRORS) as [string, ErrorEntry][];
  const table = (rows: [string, ErrorEntry][]) => [
    '| code | fault | HTTP | retry | meaning | what to do |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows.map(
      ([code, e]) =>
        `| \`${code}\` | ${e.fault} | ${e.status} | ${e.retryable ? 'yes' : 'no'} | ${e.summary} | ${e.action} |`,
    ),
  ];
  return [
    '# Errors',
    'Generated from the catalogue in `src/core/errors.ts` by `npm run docs`. Messages never carry a value of the input.',
    '',
    '## Errors of one application',
    'The row is rejected, the others are scored. The HTTP status counts only when no row could be scored.',
    '',
    ...table(entries.filter(([, e]) => e.row)),
    '',
    '## Errors that end a run or a request',
    ...table(entries.filter(([, e]) => !e.row)),
    '',
  ].join('\n');
}
