// Rows of damaged lines: which record a line belongs to, and what the answers themselves say of their rows.
import { cutWhole } from '../io/source/block-cutter.ts';
import { DelimitedScanner } from '../io/source/delimited-scanner.ts';
import type { Damage } from './locate-damage.ts';
import type { ProvenBlock } from './statement.ts';
import type { BlockDamage } from './verify-lines.ts';

/** How the records of a file are told apart. */
export interface Records {
  /** Of delimited text; null: each line is a record; 'none': records are no lines. */
  delimiter: string | null | 'none';
  /** Its first record is a header. */
  header: boolean;
  /** Where in a record its own row number stands; null: nowhere that can be read without more. */
  rowOf: ((record: string) => number | null) | null;
}

/** One thing that is wrong. */
export interface ProofFinding {
  file: 'output' | 'input' | 'list' | 'package' | 'manifest';
  kind: Damage['kind'] | 'unclear' | 'tail' | 'missing' | 'content' | 'stored' | 'moved' | 'name';
  /** Rows that it concerns, from 1; empty where it is about none. */
  rows: readonly number[];
  /** A sentence. */
  text: string;
}

/** Where field `index`, from 0, of a delimited record begins and ends; delimiters in quotes are part of a field. null: there is none. */
export function fieldAt(record: string, delimiter: string, index: number): [number, number] | null {
  let quoted = false;
  let [field, from] = [0, 0];
  for (let at = 0; at < record.length; at++) {
    if (record[at] === '"') quoted = !quoted;
    if (quoted || record[at] !== delimiter) continue;
    if (field === index) return [from, at];
    field++;
    from = at + 1;
  }
  return field === index ? [from, record.length] : null;
}

const MAX_RECORD_BYTES = 64 * 1024 * 1024;

/** First byte of each record of a text. */
function recordStarts(text: Buffer, { delimiter }: Records): number[] {
  const quote = delimiter === null ? -1 : undefined;
  const code = delimiter === null || delimiter === 'none' ? -1 : delimiter.charCodeAt(0);
  const scanner = new DelimitedScanner(code, MAX_RECORD_BYTES, ...(quote === undefined ? [] : [quote]));
  const whole = Buffer.concat([text]);
  const block = cutWhole(whole, { scanner });
  return block ? Array.from(block.faults, (_, i) => block.spans[i * 2]! - whole.byteOffset) : [];
}

/** `blocks`: of the whole file. */
export function nameRows(
  file: 'output' | 'input' | 'list',
  found: BlockDamage,
  blocks: readonly ProvenBlock[],
  records: Records,
): (ProofFinding & { hash?: bigint; delta?: bigint })[] {
  const rowsBefore = (b: number): number => blocks.slice(0, b).reduce((sum, { rows }) => sum + rows, 0);
  const first = rowsBefore(found.block) + 1;
  const last = rowsBefore(found.last + 1);
  const span = first === last ? `row ${first}` : `one of rows ${first} to ${last}`;
  if (records.delimiter === 'none' || (found.damage === null && records.rowOf === null)) {
    return [{ file, kind: 'unclear', rows: [], text: `${file}: ${span} was changed` }];
  }
  if (found.damage === null) return byRowNumbers(file, found.text, first, last, records);
  const header = records.header && found.block === 0 ? 1 : 0;
  const starts = recordStarts(found.text, records);
  const lineStart = lineStarts(found.text);
  const rowAt = (line: number): number => {
    const at = lineStart[line - 1] ?? found.text.length;
    const index = starts.filter((start) => start <= at).length - 1;
    return first + (at === found.text.length ? starts.length : index) - header;
  };
  return found.damage.map((damage) => sentence(file, damage, rowAt));
}

function lineStarts(text: Buffer): number[] {
  const starts = [0];
  for (let at = text.indexOf(0x0a); at >= 0 && at + 1 < text.length; at = text.indexOf(0x0a, at + 1))
    starts.push(at + 1);
  return starts;
}

function sentence(
  file: ProofFinding['file'],
  damage: Damage,
  rowAt: (line: number) => number,
): ProofFinding & { hash?: bigint; delta?: bigint } {
  const row = rowAt(damage.line);
  const name = (n: number): string => (n < 1 ? 'the header' : `row ${n}`);
  const rows = row < 1 ? [] : [row];
  const make = (text: string, more: number[] = []) => ({
    file,
    kind: damage.kind,
    rows: [...rows, ...more],
    text: `${file}: ${text}`,
    ...('hash' in damage ? { hash: damage.hash } : {}),
    ...('delta' in damage ? { delta: damage.delta } : {}),
  });
  switch (damage.kind) {
    case 'changed':
      return make(`${name(row)} was changed`);
    case 'deleted':
      return make(`${name(row)} was deleted`);
    case 'doubled':
      return make(`${name(row)} is there twice`);
    case 'inserted':
      return make(`a row that was not there stands before ${name(row)}`);
    case 'joined':
      return make(`the line end behind ${name(row)} is gone`, [row + 1]);
    case 'split':
      return make(`${name(row)} has a line end within`);
    case 'swapped': {
      const other = rowAt(damage.with);
      return make(`${name(row)} and ${name(other)} were swapped`, [other]);
    }
  }
}

/** What the answers say themselves: which rows are missing, there twice, or in another order. */
function byRowNumbers(
  file: 'output' | 'input' | 'list',
  text: Buffer,
  first: number,
  last: number,
  records: Records,
): ProofFinding[] {
  const starts = recordStarts(text, records);
  const seen: number[] = [];
  for (const [i, start] of starts.entries()) {
    const row = records.rowOf!(text.subarray(start, starts[i + 1] ?? text.length).toString());
    if (row !== null && row >= first && row <= last) seen.push(row);
  }
  const counts = new Map<number, number>();
  for (const row of seen) counts.set(row, (counts.get(row) ?? 0) + 1);
  const findings: ProofFinding[] = [];
  for (let row = first; row <= last; row++) {
    const n = counts.get(row) ?? 0;
    if (n === 0) findings.push({ file, kind: 'deleted', rows: [row], text: `${file}: row ${row} was deleted` });
    if (n > 1) findings.push({ file, kind: 'doubled', rows: [row], text: `${file}: row ${row} is there ${n} times` });
  }
  const unique = [...new Set(seen)];
  const moved = unique.filter((row, i) => i > 0 && row < unique[i - 1]!);
  for (const row of moved)
    findings.push({ file, kind: 'moved', rows: [row], text: `${file}: row ${row} stands at another place` });
  if (findings.length > 0) return findings;
  return [{ file, kind: 'unclear', rows: [], text: `${file}: several of rows ${first} to ${last} were changed` }];
}

/** Changes in different blocks that are one: a swap takes from one what it gives to the other. */
export function joinFindings(findings: readonly (ProofFinding & { hash?: bigint; delta?: bigint })[]): ProofFinding[] {
  const left = [...findings];
  const joined: ProofFinding[] = [];
  while (left.length > 0) {
    const one = left.shift()!;
    const partner = left.findIndex(
      (other) =>
        other.file === one.file &&
        ((one.delta !== undefined && other.delta !== undefined && BigInt.asUintN(64, one.delta + other.delta) === 0n) ||
          (one.hash !== undefined && one.hash === other.hash && one.kind !== other.kind)),
    );
    const { hash: _h, delta: _d, ...plain } = one;
    if (partner < 0) {
      joined.push(plain);
      continue;
    }
    const [other] = left.splice(partner, 1);
    const [a, b] = [one.rows[0] ?? 0, other!.rows[0] ?? 0];
    const swapped = one.delta !== undefined;
    const from = one.kind === 'deleted' ? a : b;
    const text = swapped ? `rows ${a} and ${b} were swapped` : `row ${from} stands at another place`;
    joined.push({ file: one.file, kind: swapped ? 'swapped' : 'moved', rows: [a, b], text: `${one.file}: ${text}` });
  }
  return joined;
}
