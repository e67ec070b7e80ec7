// Writes docs/errors.md from the catalogue; a test compares the page with it.
import { readFileSync } from 'node:fs';
import { ERRORS, type ErrorEntry } from '../../src/core/errors.ts';

/** Code → anchor of its entry in docs/troubleshooting.md. Codes of an entry are the inline code of its heading. */
export function troubleshootingEntries(): Map<string, string> {
  const page = readFileSync('docs/troubleshooting.md', 'utf8');
  const headings = [...page.matchAll(/^### (.*)$/gm)].map((m) => m[1]!);
  return new Map(
    headings.flatMap((heading) =>
      [...heading.matchAll(/`(\w+)`/g)].map(([, code]) => [code!, anchor(heading)] as const),
    ),
  );
}

/** The anchor that GitHub gives to a heading. */
export const anchor = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

/** The page as Markdown. */
export function errorsPage(): string {
  const entries = Object.entries(ERRORS) as [string, ErrorEntry][];
  const explained = troubleshootingEntries();
  const named = (code: string) =>
    explained.has(code) ? `[\`${code}\`](troubleshooting.md#${explained.get(code)})` : `\`${code}\``;
  const table = (rows: [string, ErrorEntry][]) => [
    '| code | fault | HTTP | retry | meaning | what to do |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows.map(
      ([code, e]) =>
        `| ${named(code)} | ${e.fault} | ${e.status} | ${e.retryable ? 'yes' : 'no'} | ${e.summary} | ${e.action} |`,
    ),
  ];
  return [
    '# Errors',
    'Generated from the catalogue in `src/core/errors.ts` by `npm run docs`. Messages never carry a value of the input.',
    'A linked code has an entry with symptom, cause and remedy in [troubleshooting.md](troubleshooting.md).',
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
