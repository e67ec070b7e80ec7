// Reads the predictions of the training library, and compares scores with them.
// Predictions are a column of probabilities, one column per class, or values.
import { readFile } from 'node:fs/promises';
import { parse } from 'csv-parse/sync';
import { SluiceError } from '../core/errors.ts';
import type { Scores } from '../inference/evaluate/evaluator.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import type { Manifest } from '../model/package/manifest.ts';

export interface Expected {
  /** The columns of the file that are compared. */
  columns: readonly string[];
  /** The values, row by row, rows × columns.length. NaN: the file has no value. */
  values: Float64Array;
  rows: number;
  /** The class index of each column; -1: the column is the probability of the positive class, or the value. */
  classes: readonly number[];
}

export interface ExpectedTable {
  file: string;
  header: readonly string[];
  rows: readonly (readonly string[])[];
}

const PROBABILITY = ['probability', 'proba', 'prob', 'p', 'y_proba', 'y_prob', 'predicted_probability', 'score', 'prediction', 'pred', 'y_pred', 'value', 'expected']; // biome-ignore format: a list
const VALUE = ['value', 'prediction', 'pred', 'y_pred', 'score', 'expected', 'probability'];

/**
 * Reads the file. A first line that contains only numbers is not a header.
 * @throws SluiceError input_not_found | usage
 */
export async function readExpected(file: string): Promise<ExpectedTable> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new SluiceError('input_not_found', `${file} cannot be opened`, { cause });
  }
  return expectedIn(file, text);
}

/** Parses the text of a file. @throws SluiceError usage */
export function expectedIn(file: string, text: string): ExpectedTable {
  const first = text.split(/\r?\n/, 1)[0]!;
  const delimiter = [',', '\t', ';'].reduce((a, b) => (first.split(b).length > first.split(a).length ? b : a));
  let rows: string[][];
  try {
    rows = parse(text, {
      delimiter,
      bom: true,
      skip_empty_lines: true,
      record_delimiter: ['\r\n', '\n', '\r'],
    }) as string[][];
  } catch (cause) {
    throw new SluiceError('usage', `${file}: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
  if (rows.length === 0) throw new SluiceError('usage', `${file} is empty`);
  const headerless =
    rows[0]!.every((c) => c !== '' && Number.isFinite(Number(c))) && !rows[0]!.every((c) => /^\d+$/.test(c));
  const header = headerless ? rows[0]!.map((_, i) => `column ${i + 1}`) : rows[0]!;
  // to_csv of pandas writes the row index as a first column without a name, which is removed.
  const body = headerless ? rows : rows.slice(1);
  const indexed = !headerless && header.length > 1 && header[0] === '' && body.every((r) => /^\d+$/.test(r[0] ?? ''));
  return indexed ? { file, header: header.slice(1), rows: body.map((r) => r.slice(1)) } : { file, header, rows: body };
}

/** Finds the columns with the predictions. @throws SluiceError usage, which names the expected columns */
export function expectedFor(table: ExpectedTable, manifest: Manifest): Expected {
  const { header } = table;
  const find = (names: readonly string[]) =>
    names.map((n) => header.findIndex((h) => h.trim().toLowerCase() === n)).find((i) => i >= 0 && numeric(table, i)) ??
    -1;
  let picked: number[] = [];
  let classes: number[] = [];
  if (manifest.task === 'binary' || manifest.task === 'multiclass') {
    const perClass = manifest.classes!.map((c) => header.findIndex((h) => namesClass(h, String(c))));
    if (manifest.task === 'multiclass' && perClass.every((i) => i >= 0)) {
      picked = perClass;
      classes = perClass.map((_, c) => c);
    } else if (manifest.task === 'binary') {
      const positive = perClass[manifest.classes!.indexOf(manifest.positive_class!)] ?? -1;
      const i = find(PROBABILITY.slice(0, 7));
      const j = i >= 0 ? i : positive >= 0 ? positive : find(PROBABILITY);
      if (j >= 0) [picked, classes] = [[j], [-1]];
    }
  } else {
    const i = find(VALUE);
    if (i >= 0) [picked, classes] = [[i], [-1]];
  }
  if (picked.length === 0 && manifest.task !== 'multiclass' && header.length === 1) [picked, classes] = [[0], [-1]];
  if (picked.length === 0) {
    const wanted =
      manifest.task === 'multiclass'
        ? manifest.classes!.map((c) => `probability.${c}`).join(', ')
        : manifest.task === 'binary'
          ? 'probability'
          : 'value';
    throw new SluiceError('usage', `${table.file} needs the column ${wanted} (it has ${header.join(', ')})`);
  }
  const values = new Float64Array(table.rows.length * picked.length);
  table.rows.forEach((row, r) => {
    picked.forEach((c, j) => {
      const cell = row[c] ?? '';
      values[r * picked.length + j] = cell.trim() === '' ? Number.NaN : Number(cell);
    });
  });
  return { columns: picked.map((i) => header[i]!), values, rows: table.rows.length, classes };
}

const namesClass = (header: string, c: string): boolean =>
  header === c || (header.endsWith(c) && /[._ \-:]$/.test(header.slice(0, header.length - c.length)));

const numeric = (table: ExpectedTable, column: number): boolean =>
  table.rows.slice(0, 100).every((r) => (r[column] ?? '') === '' || Number.isFinite(Number(r[column])));

/** The result of comparing the scores of a model with the predictions of its training library. */
export interface Deviation {
  rows: number;
  /** Number of rows with a difference above the tolerance. */
  beyond: number;
  largest: number;
  /** The row of the table with the largest difference, counted from 0. */
  worst: number;
  /** Number of rows with a prediction that Sluice rejects. */
  rejected: number;
}

/** The scored rows, and the positions of their expected values. */
interface ComparedRows {
  readonly scores: Scores;
  readonly rejected: ReadonlyMap<number, unknown>;
  /** `rowOf[i]`: index of the expected row for scored row i. */
  readonly rowOf: readonly number[];
}

export function deviationOf(
  manifest: Manifest,
  { scores, rejected, rowOf }: ComparedRows,
  expected: Expected,
  tolerance: number,
): Deviation {
  const result: Deviation = { rows: 0, beyond: 0, largest: 0, worst: -1, rejected: 0 };
  const differenceAt = rowDifference(new Interpreter(manifest), scores, expected);
  rowOf.forEach((row, i) => {
    const d = differenceAt(i, row);
    if (d === null) return;
    if (rejected.has(i)) {
      result.rejected++;
      return;
    }
    result.rows++;
    if (!(d <= tolerance)) result.beyond++;
    if (!(d <= result.largest)) [result.largest, result.worst] = [d, row];
  });
  return result;
}

/**
 * Returns a function for the largest difference between scored row `i` and expected row `row`. NaN: a score is NaN.
 * null: no value is expected.
 */
export function rowDifference(
  interpreter: Interpreter,
  scores: Scores,
  { classes, values }: Expected,
): (i: number, row: number) => number | null {
  const binary = interpreter.task === 'binary';
  const scoreOf = (i: number, c: number): number => {
    if (c >= 0) return scores.values[i * scores.width + c]!;
    return binary ? interpreter.probability(scores, i) : interpreter.value(scores, i);
  };
  return (i, row) => {
    let worst = 0;
    for (let j = 0; j < classes.length; j++) {
      const want = values[row * classes.length + j]!;
      if (Number.isNaN(want)) return null;
      const c = classes[j]!;
      // Values can have any scale. So for values above 1 the tolerance is relative, like the precision of float32.
      const d = Math.abs(scoreOf(i, c) - want) / (c < 0 && !binary ? Math.max(1, Math.abs(want)) : 1);
      if (!(d <= worst)) worst = d;
    }
    return worst;
  };
}
