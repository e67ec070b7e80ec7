// What the entry points are given: models whose columns have the names of the carriers, and applications with one value each.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Answer } from './crossing.ts';
import { ALL, ALWAYS, constantOf, type KindColumn, writeNarrowPackage, writePackage } from './model.ts';
import type { Setting, Value } from './rule.ts';
import { CELLS, TOKENS } from './texts.ts';

export const PLAIN: Setting = { declared: {}, numbers: 'refuse' };
/** All columns; the column of the application that is passed through is none of them. */
export const WIDE = 'kinds';
/** The column `row` alone, so that `x` is passed through. */
export const PASSING = 'passing';
export const narrow = (spec: KindColumn): string => `x-${spec.name.replaceAll('_', '-')}`;

/** A registry with all of these models. */
export function registryOfKinds(): { folder: string; remove: () => void } {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-kinds-'));
  writePackage(folder, WIDE, 'refuse');
  writeNarrowPackage(folder, PASSING, null);
  for (const spec of ALL) writeNarrowPackage(folder, narrow(spec), spec);
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** A value as a column of the model. */
export interface Case {
  spec: KindColumn;
  value: Value;
  /** It as JSON. */
  token: string;
}

/** Tokens of JSON with their values, texts among them. */
export const JSON_VALUES: readonly (readonly [token: string, value: Value])[] = [
  ...TOKENS,
  ...CELLS.map((cell) => [JSON.stringify(cell.t), cell] as const),
];
export const TOKEN_CASES: readonly Case[] = ALL.flatMap((spec) =>
  JSON_VALUES.map(([token, value]) => ({ spec, token, value })),
);
export const CELL_CASES: readonly Case[] = TOKEN_CASES.filter(({ value }) => value !== null && 't' in value);

/** An application for the wide model, as JSON. */
export const objectOf = ({ spec, token }: Case): string =>
  `{${ALL.map((c) => `"${c.name}": ${c === spec ? token : JSON.stringify(constantOf(c))}`).join(', ')}, "${ALWAYS}": 1}`;

const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;
/** Applications for the wide model, as a file with this delimiter. */
export function delimitedOf(cases: readonly Case[], mark: string): string {
  const line = ({ spec, value }: Case) =>
    [...ALL.map((c) => quoted(c === spec ? (value as { t: string }).t : constantOf(c))), '1'].join(mark);
  return `${[...ALL.map(({ name }) => name), ALWAYS].join(mark)}\n${cases.map((c) => `${line(c)}\n`).join('')}`;
}

/** Answers to single rows by the cases they belong to, so that they can be compared for each column. */
export function bySpec(cases: readonly Case[], answers: readonly Answer[]): [KindColumn, Value[], Answer[]][] {
  if (answers.length !== cases.length) throw new Error(`${answers.length} answers to ${cases.length} applications`);
  return ALL.map((spec) => {
    const own = cases.flatMap((c, i) => (c.spec === spec ? [i] : []));
    return [spec, own.map((i) => cases[i]!.value), own.map((i) => answers[i]!)];
  });
}
