// Crosses the options of a file run that change no prediction with everything that does: summaries, control totals, gates, evaluators.
//
// Each of them is judged by the oracle like a plain run, and by what the option itself promises.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import * as flechette from '@uwdata/flechette';
import { parse } from 'csv-parse/sync';
import { EVALUATORS } from '../../src/config/options/scoring.ts';
import type { ScoreFlags } from '../../src/doors/commands/flags/score-flags.ts';
import { score } from '../../src/doors/commands/score.ts';
import { capture } from '../support/captured-stream.ts';
import fc from '../support/seeded-fast-check.ts';
import { type Case, sometimes } from './combinations.ts';
import { differences, neutral } from './compare.ts';
import { ENDINGS, type Outcome, refusal, scoreFlags, unpacked } from './entries.ts';
import { questionOf } from './judge.ts';
import { answer, decoded, type OracleModel, type Verdict } from './oracle.ts';
import { type StoredInput, storedInput } from './stored-input.ts';

/** Control totals: none, those of the input, or others. */
const TOTALS = ['none', 'right', 'wrong rows', 'wrong hash'] as const;

export interface RunOptions {
  json: boolean;
  evaluator: (typeof EVALUATORS)[number];
  totals: (typeof TOTALS)[number];
  /** The totals are in a file beside the input instead of in flags. */
  controlFile: boolean;
  minRows: number | null;
  /** `max_rejects` as a number of rows. */
  rejectedRows: number | null;
  report: boolean;
  metricsFile: boolean;
  checkpoints: boolean;
  start: 'plain' | 'resume' | 'restart';
  /** An Arrow input is a file with a footer, not a stream. */
  arrowFile: boolean;
  /** The rows are those of so many files with columns in different orders. */
  files: 1 | 2 | 3;
}

export const runOptions = (): fc.Arbitrary<RunOptions> => {
  const seldom = (share: number) => fc.nat(99).map((n) => n < share);
  return fc.record({
    json: fc.boolean(),
    evaluator: fc.constantFrom(...EVALUATORS),
    totals: fc.constantFrom('none', 'none', 'none', 'none', 'right', ...TOTALS),
    controlFile: fc.boolean(),
    minRows: sometimes(fc.constantFrom(0, 1, 5, 50), 25),
    rejectedRows: sometimes(fc.constantFrom(1, 3), 20),
    report: seldom(15),
    metricsFile: seldom(25),
    checkpoints: seldom(30),
    start: fc.constantFrom('plain', 'plain', 'resume', 'restart'),
    arrowFile: fc.boolean(),
    files: fc.constantFrom(1, 1, 2, 3),
  });
};

/** The rows of a case divided among files; the columns of each file begin with another one. */
function dividedInto(count: number, c: Case): Case[] {
  const rows = c.columns[0]!.cells.length;
  return Array.from({ length: count }, (_, part) => {
    const [from, to] = [Math.floor((part * rows) / count), Math.floor(((part + 1) * rows) / count)];
    const columns = c.columns.map((column) => ({ ...column, cells: column.cells.slice(from, to) }));
    const turned = c.declared.header ? [...columns.slice(part), ...columns.slice(0, part)] : columns;
    const broken = c.broken.filter((row) => row >= from && row < to).map((row) => row - from);
    return { ...c, columns: turned, broken };
  });
}

interface Part {
  c: Case;
  stored: StoredInput;
  expected: Verdict;
  file: string;
  out: string;
}

export interface Setting {
  folder: string;
  models: ReadonlyMap<string, OracleModel>;
  effects: Map<string, string>;
}

/** An Arrow stream as a file. */
function arrowFile(bytes: Buffer): Buffer {
  const table = flechette.tableFromIPC(new Uint8Array(bytes), { useBigInt: true, useDecimalInt: true });
  return Buffer.from(flechette.tableToIPC(table, { format: 'file' })!);
}

async function partsOf(c: Case, o: RunOptions, { folder, models }: Setting): Promise<Part[]> {
  const model = models.get(c.model)!;
  const parts: Part[] = [];
  for (const [i, part] of dividedInto(o.files, c).entries()) {
    const stored = storedInput(part);
    const isFile = o.arrowFile && c.input === 'arrow' && c.inputCompression === 'none';
    const bytes = isFile ? arrowFile(stored.bytes) : stored.bytes;
    const file = path.join(folder, `in-${i}.${c.input}${ENDINGS[c.inputCompression]}`);
    writeFileSync(file, bytes);
    const rows = rowsOf(part);
    const expected = await expectedOf(part, stored, model, o, rows);
    const hash = createHash('sha256')
      .update(o.totals === 'wrong hash' ? 'other' : bytes)
      .digest('hex');
    const wrong = o.totals === 'wrong rows' ? 1 : 0;
    if (o.controlFile && o.totals !== 'none')
      writeFileSync(`${file}.ctl`, `rows=${countedRows(expected, rows) + wrong}\nsha256=${hash}\n`);
    parts.push({ c: part, stored: { ...stored, bytes }, expected, file, out: path.join(folder, `in-${i}.out.${c.output}${ENDINGS[c.outputCompression]}`) }); // biome-ignore format: one line
  }
  return parts;
}

const rowsOf = (c: Case): number => c.columns[0]!.cells.length;
const countedRows = (verdict: Verdict, otherwise: number): number =>
  'refused' in verdict ? otherwise : verdict.rows.length;

/** What the oracle expects of one input, with what its totals and gate add. */
async function expectedOf(
  c: Case,
  stored: StoredInput,
  model: OracleModel,
  o: RunOptions,
  rows: number,
): Promise<Verdict> {
  // The gate is judged here, with its other limits.
  const plain = await answer(questionOf({ ...c, maxRejects: null }, stored, model));
  const wrong = o.totals === 'wrong rows' || o.totals === 'wrong hash' ? ['control_total_mismatch'] : [];
  if ('refused' in plain) {
    // All of the input was read: which of several refusals comes first is not promised.
    const isRead = plain.refused.includes('nothing_scored');
    return isRead ? { refused: [...plain.refused, ...wrong, 'gate_stopped'] } : plain;
  }
  const rejected = plain.rows.filter(({ error }) => error !== null).length;
  const limit = o.rejectedRows ?? c.maxRejects;
  const found = limit !== null && limit < 1 ? rejected / Math.max(1, plain.rows.length) : rejected;
  const stopped = (limit !== null && found > limit) || (o.minRows !== null && rows < o.minRows);
  const refused = [...wrong, ...(stopped ? ['gate_stopped'] : [])];
  return refused.length > 0 ? { refused } : plain;
}

function flagsOf(c: Case, o: RunOptions, parts: readonly Part[], folder: string): ScoreFlags {
  const several = parts.length > 1;
  const output = several ? path.join(folder, `{name}.out.${c.output}${ENDINGS[c.outputCompression]}`) : parts[0]!.out;
  const flags: ScoreFlags = {
    ...scoreFlags(c, parts[0]!.stored, output),
    evaluator: o.evaluator,
    ...(o.json ? { json: true } : {}),
    ...(o.minRows === null ? {} : { minRows: o.minRows }),
    ...(o.rejectedRows === null ? {} : { maxRejects: o.rejectedRows }),
    ...(o.report ? { report: path.join(folder, 'report.html') } : {}),
    ...(o.metricsFile ? { metricsFile: path.join(folder, 'run.prom') } : {}),
    ...(o.checkpoints ? { checkpointEvery: 0.001 } : {}),
    ...(o.start === 'plain' ? {} : { [o.start]: true }),
  };
  if (o.totals === 'none') return flags;
  if (o.controlFile || several) return o.controlFile ? { ...flags, controlFile: '{path}.ctl' } : flags;
  const [{ expected, stored, c: part }] = parts as [Part];
  const hash = createHash('sha256')
    .update(o.totals === 'wrong hash' ? 'other' : stored.bytes)
    .digest('hex');
  const rows = countedRows(expected, rowsOf(part)) + (o.totals === 'wrong rows' ? 1 : 0);
  return { ...flags, expectRows: rows, expectSha256: hash };
}

/** The same without what cannot be combined. */
export function allowed(c: Case, options: RunOptions): RunOptions {
  const o = { ...options };
  // Flags name the totals of one input; several are told apart by their control files.
  if (o.files > 1) o.controlFile = true;
  if (rowsOf(c) < o.files) o.files = 1;
  // The number of records of a malformed input is not defined: totals are those of inputs that can be read.
  if (o.start !== 'plain' && !o.checkpoints) o.checkpoints = true;
  return o;
}

/** What is wrong with a run with these options; empty: nothing is. */
export async function runOptionDifferences(c: Case, options: RunOptions, setting: Setting): Promise<string[]> {
  const o = allowed(c, options);
  const { folder, models, effects } = setting;
  const parts = await partsOf(c, o, setting);
  // Which rows a refused input has is not known, so its totals are not either.
  const flags = flagsOf(c, o, parts, folder);
  const target = parts.length > 1 ? path.join(folder, `in-*.${c.input}${ENDINGS[c.inputCompression]}`) : parts[0]!.file;
  const before = new Map(parts.map(({ file }) => [file, readFileSync(file)]));
  const { exitCode, error, printed } = await captured(() => score(target, flags));
  const found: string[] = [];
  for (const { file } of parts)
    if (!before.get(file)!.equals(readFileSync(file))) found.push('the input was written to');
  if (parts.length > 1 && c.passthrough === '*' && exitCode === null && error?.message.includes('passthrough'))
    return found;
  for (const { c: part, expected, out } of parts) {
    found.push(...(await differences({ c: part, model: models.get(c.model)!, expected, outcome: outcomeOf(part, expected, out, { exitCode, error, several: parts.length > 1, folder }), effects }))); // biome-ignore format: one line
  }
  for (const part of parts) found.push(...placeDifferences(part));
  if (exitCode !== null) found.push(...countDifferences(o, parts, folder, printed, c));
  const hidden = readdirSync(folder).filter((name) => name.startsWith('.'));
  if (hidden.length > 0) found.push(`left hidden files: ${hidden.join(', ')}`);
  return found;
}

/** Where the rejects file says that a row is, there it is: which input, line and byte. */
function placeDifferences({ c, stored, expected, file, out }: Part): string[] {
  const list = `${out}.rejects.csv`;
  if ('refused' in expected || stored.input.format === 'table' || !existsSync(list)) return [];
  const { bytes } = stored.input;
  const [, ...rows] = parse(readFileSync(list), { relax_column_count: true }) as string[][];
  const found: string[] = [];
  for (const [input, row, line, offset] of rows as [string, string, string, string][]) {
    if (input !== neutral(file)) found.push(`rejects file, row ${row}: the input is ${input}`);
    // Places in another encoding are those of the text as UTF-8.
    const text = c.declared.encoding === 'utf-8' ? bytes : Buffer.from(decoded(bytes, c.declared.encoding));
    const before = text.subarray(0, Number(offset)).toString();
    const lines = (before.match(/\r\n|\n|\r/g) ?? []).length + 1;
    if (String(lines) !== line)
      found.push(`rejects file, row ${row}: line ${line} instead of ${lines} of byte ${offset}`);
    const ahead = recordsBefore(c, stored, before);
    if (ahead !== null && ahead !== Number(row) - 1) found.push(`rejects file, row ${row}: ${ahead} records are before byte ${offset}`); // biome-ignore format: one line
    if (/^[\r\n]/.test(text.subarray(Number(offset)).toString())) found.push(`rejects file, row ${row}: byte ${offset} is a line end`); // biome-ignore format: one line
  }
  return found;
}

/** The records in a beginning of the input; null: it takes more than this to count them. */
function recordsBefore({ input }: Case, stored: StoredInput, before: string): number | null {
  if (input === 'json') return null;
  if (input === 'ndjson') return before.split(/\r\n|\n|\r/).filter((line) => line.trim() !== '').length;
  const { delimiter } = stored.input as { delimiter: string };
  const options = { delimiter, record_delimiter: ['\r\n', '\n', '\r'], relax_column_count: true, relax_quotes: true, skip_empty_lines: true, bom: true }; // biome-ignore format: one line
  return (parse(before, options) as string[][]).length - (stored.declared.names ? 0 : 1);
}

interface Ended {
  exitCode: number | null;
  error: Error | null;
  several: boolean;
  folder: string;
}

/** What came of one of the inputs: its output and rejects file, or the refusal of the run. */
function outcomeOf(c: Case, expected: Verdict, out: string, { exitCode, error, several }: Ended): Outcome {
  const rejectsFile = `${out}.rejects.csv`;
  if (existsSync(out)) {
    const rejects = existsSync(rejectsFile) ? readFileSync(rejectsFile, 'utf8') : null;
    const rejected = 'refused' in expected ? 0 : expected.rows.filter((row) => row.error !== null).length;
    // The exit code is that of all inputs together.
    const code = several && exitCode !== 1 ? (rejected > 0 ? 3 : 0) : exitCode;
    return { bytes: unpacked(readFileSync(out), c), rejects, exitCode: several ? (rejected > 0 ? 3 : 0) : code };
  }
  const left = existsSync(rejectsFile) ? [rejectsFile] : [];
  // A run of several inputs names one of the failures.
  if (several && 'refused' in expected) return { refused: expected.refused[0]!, message: '', left };
  return error === null ? { refused: 'nothing is there', message: '', left } : refusal(error, left);
}

async function captured(
  run: () => Promise<number>,
): Promise<{ exitCode: number | null; error: Error | null; printed: string }> {
  let printed = '';
  const { restore } = capture(process.stdout, (chunk) => {
    printed += chunk.toString();
  });
  try {
    return { exitCode: await run(), error: null, printed };
  } catch (error) {
    return { exitCode: null, error: error as Error, printed };
  } finally {
    restore();
  }
}

/** The summary and the metrics count what the outputs have. */
function countDifferences(o: RunOptions, parts: readonly Part[], folder: string, printed: string, c: Case): string[] {
  const rows = parts.flatMap(({ expected }) => ('refused' in expected ? [] : expected.rows));
  const rejected = rows.filter(({ error }) => error !== null);
  const byCode: Record<string, number> = {};
  for (const { error } of rejected) byCode[error!.code] = (byCode[error!.code] ?? 0) + 1;
  const found: string[] = [];
  if (o.json) {
    const summary = JSON.parse(printed);
    const mine = [summary.rows, summary.scored, summary.rejected, summary.skipped, sorted(summary.rejectedByCode)];
    const wanted = [rows.length, rows.length - rejected.length, rejected.length, 0, sorted(byCode)];
    if (JSON.stringify(mine) !== JSON.stringify(wanted)) found.push(`the summary has ${JSON.stringify(mine)} instead of ${JSON.stringify(wanted)}`); // biome-ignore format: one line
  } else if (printed !== '') found.push('something was printed');
  if (o.metricsFile) {
    const text = readFileSync(path.join(folder, 'run.prom'), 'utf8');
    const sum = (name: string, label: string) =>
      [...text.matchAll(new RegExp(`^${name}\\{[^}]*${label}[^}]*\\} (\\d+)`, 'gm'))].reduce(
        (n, m) => n + Number(m[1]),
        0,
      );
    const mine = [sum('sluice_rows_total', 'outcome="scored"'), sum('sluice_rows_total', 'outcome="rejected"')];
    if (mine[0] !== rows.length - rejected.length || mine[1] !== rejected.length) found.push(`the metrics count ${mine.join(' and ')}`); // biome-ignore format: one line
  }
  for (const name of o.report ? ['report.html'] : []) if (!existsSync(path.join(folder, name))) found.push(`${name} is missing`); // biome-ignore format: one line
  for (const { out, expected } of parts) {
    const isThere = existsSync(`${out}.manifest.json`);
    if (!('refused' in expected) && isThere !== c.manifest)
      found.push(`the manifest is ${isThere ? 'left' : 'missing'}`);
  }
  return found;
}

const sorted = (counts: Record<string, number>): [string, number][] => Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)); // biome-ignore format: one line
