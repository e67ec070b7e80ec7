// Files in random dialects: the printed command scores them like the clean file, or a question has an answer that does.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { inspectFile } from '../../src/inspect/inspect-file.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { Draw } from '../support/decoding.ts';
import { encoded } from '../support/encodings.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { SEED, times } from '../support/tiers.ts';
import { type Applications, applicationsFor } from './applications.ts';
import { cleanText, predictionsIn, runPrinted } from './printed-command.ts';

const FILES = times('dialects', { quick: 6, check: 16, campaigns: 600 });
const ROWS = [30, 120, 300] as const;

const STYLES: readonly ((name: string) => string)[] = [
  (name) => name,
  (name) => name.toUpperCase(),
  (name) => name.replaceAll('_', '-'),
  (name) => name.replaceAll('_', ' '),
  (name) => `cust_${name}`,
  (name) => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
];

/** The cells of the file, and the text around them. */
function draftFile(draw: Draw, { columns, rows }: Applications): Buffer {
  const decimal = draw.of(['.', ',']);
  const thousands = draw.of(['', '.', ',', ' ', "'", '\u00a0'].filter((mark) => mark !== decimal));
  const missing = draw.of(['', 'NA', 'NULL', '-', '\\N', 'n/a']);
  const pads = draw.chance(0.3);
  const hasHeader = draw.chance(0.75);
  const style = draw.of(STYLES);
  const written = (text: string, kind: string): string => {
    const [whole = '', fraction] = text.split('.');
    const digits = kind === 'number' ? whole.replace(/\B(?=(?:\d{3})+$)/g, thousands) : whole;
    const value =
      text === ''
        ? missing
        : kind !== 'number'
          ? text
          : fraction === undefined
            ? digits
            : `${digits}${decimal}${fraction}`;
    return pads ? ` ${value}  ` : value;
  };
  // Without names, the order cannot be recognised.
  const order = columns.map((_, i) => i);
  if (hasHeader && draw.chance(0.5)) order.reverse();
  let table = rows.map((row) => order.map((i) => written(row[i]!, columns[i]!.kind)));
  if (hasHeader) table = [order.map((i) => style(columns[i]!.name)), ...table];
  if (draw.chance(0.5)) table = table.map((row, r) => [hasHeader && r === 0 ? 'KUNDE' : `K${10_000 + r}`, ...row]);
  if (draw.chance(0.3)) table.push(['Summe', ...table[0]!.slice(1).map(() => '')]);
  return around(draw, table);
}

function around(draw: Draw, table: readonly (readonly string[])[]): Buffer {
  const delimiter = draw.of([',', ';', '\t', '|']);
  const end = draw.of(['\n', '\r\n']);
  const quotesAll = draw.chance(0.3);
  const cell = (text: string) =>
    quotesAll || text.includes(delimiter) || text.includes('"') ? `"${text.replaceAll('"', '""')}"` : text;
  const before = Array.from({ length: draw.of([0, 0, 1, 3]) }, (_, i) => `Vorspann ${i}${end}`).join('');
  const text = before + table.map((row) => row.map(cell).join(delimiter) + end).join('');
  const mark = draw.chance(0.3) ? '\ufeff' : '';
  const bytes = draw.chance(0.4)
    ? encoded(text, draw.of(['utf-16', 'utf-16le', 'windows-1252']))
    : Buffer.from(mark + text);
  return draw.chance(0.3) ? gzipSync(bytes) : bytes;
}

test('any dialect', async () => {
  const model = await loadPackage(CREDIT_DEFAULT);
  const all = await applicationsFor(CREDIT_DEFAULT, Math.max(...ROWS));
  const cwd = scratch();
  writeFileSync(path.join(cwd, 'clean.csv'), cleanText(all));
  await sluiceHere(['score', 'clean.csv', '-m', 'credit-default', '-o', 'clean.out.csv', '--quiet'], { cwd });
  const clean = predictionsIn(path.join(cwd, 'clean.out.csv'));
  const draw = new Draw(SEED);
  let decided = 0;
  for (let i = 0; i < FILES; i++) {
    const count = draw.of(ROWS);
    const bytes = draftFile(draw, { ...all, rows: all.rows.slice(0, count) });
    const file = path.join(cwd, `file-${i}.txt`);
    writeFileSync(file, bytes);
    const found = await inspectFile({ file, model, modelName: 'credit-default', output: 'out.csv' });
    const commands = found.command === null ? found.alternatives.map(({ command }) => command) : [found.command];
    const right = commands.filter((command) => {
      runPrinted(command, cwd);
      return JSON.stringify(predictionsIn(path.join(cwd, 'out.csv'))) === JSON.stringify(clean.slice(0, count + 1));
    });
    const what = `file ${i} of seed ${SEED}: ${commands.join('\n')}`;
    expect(right.length, what).toBeGreaterThan(0);
    expect(['ready', 'open'], what).toContain(found.verdict);
    if (found.verdict === 'ready') decided++;
  }
  expect(decided).toBeGreaterThan(FILES / 2);
});
