// Runs a command that `sluice inspect` printed, and reads what it wrote.
import { execFileSync } from 'node:child_process';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'csv-parse/sync';
import { MAIN } from '../support/cli.ts';
import type { Applications } from './applications.ts';

/** Runs a printed command in a shell, in which `sluice` is the program of this checkout. */
export function runPrinted(command: string, cwd: string): void {
  const program = path.join(cwd, 'sluice');
  writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`);
  chmodSync(program, 0o755);
  execFileSync('sh', ['-c', command], {
    cwd,
    env: { ...process.env, PATH: `${cwd}:${process.env.PATH}` },
    stdio: 'pipe',
  });
}

/** The cells of an output; its delimiter is that of the input. */
export function predictionsIn(file: string): string[][] {
  const text = readFileSync(file, 'utf8');
  const delimiter = [';', '|', ','].find((one) => text.split('\n', 1)[0]!.includes(one))!;
  return parse(text, { delimiter }) as string[][];
}

/** The applications as CSV that needs no declaration. */
export const cleanText = ({ columns, rows }: Applications): string =>
  [columns.map(({ name }) => name), ...rows].map((row) => `${row.join(',')}\n`).join('');

/** The output that `inspect` proposes for a file. */
export const outputOf = (file: string): string => `${file.replace(/\.gz$/, '').replace(/\.[^.]*$/, '')}.scored.csv`;
