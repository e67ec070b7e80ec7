// `model diff`: differences between two manifests, and between the scores of both models for a background sample.
import { isDeepStrictEqual } from 'node:util';
import { parse } from 'csv-parse/sync';
import { SluiceError } from '../core/errors.ts';
import { type EncodedRows, encodeRows } from '../inference/encode/encode-rows.ts';
import type { Evaluator, Scores } from '../inference/evaluate/evaluator.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import { createExplainer } from '../inference/explain/choose-explainer.ts';
import { NotExplainable, type Space } from '../inference/explain/explainer.ts';
import { answersOf } from '../inference/explain/link.ts';
import { Probe } from '../inference/sandbox/probe.ts';
import { probeEvaluator } from '../inference/sandbox/sample-scorer.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { type ModelPackage, readModelBytes, readPackageFile } from '../model/package/model-package.ts';

// Manifests are compared key by key; columns, inputs and decisions are matched by name.

/** A value that differs; null: the package does not have the value. */
export interface Difference {
  /** The path of the value, such as `columns.income.missing.as`. */
  readonly at: string;
  readonly from: string | null;
  readonly to: string | null;
}

/**
 * Keys that are omitted from the differences: id and version always differ, and a changed baseline is visible in drift
 * reports.
 */
const ELSEWHERE = new Set(['id', 'version', 'baseline']);
/** Maximum number of characters of a value that are shown. */
const LONGEST = 60;

type Json = unknown;
type Entries = ReadonlyMap<string, Json>;

/**
 * The differences in the order of the second manifest, with differences that only concern the first manifest at the end
 * of their section.
 */
export function manifestDifferences(from: Manifest, to: Manifest): Difference[] {
  const without = (m: Manifest) =>
    Object.fromEntries(
      Object.entries({ ...m, onnx: { ...m.onnx, sha256: '' } }).filter(([key]) => !ELSEWHERE.has(key)),
    );
  const found: Difference[] = [];
  walk('', without(from), without(to), found);
  if (!isDeepStrictEqual(from.baseline, to.baseline)) {
    const told = ({ baseline }: Manifest) => (baseline ? `of ${baseline.rows ?? 'unknown'} rows` : null);
    found.push({ at: 'baseline', from: told(from), to: told(to) });
  }
  return found;
}

function walk(at: string, from: Json, to: Json, found: Difference[]): void {
  if (isDeepStrictEqual(from, to)) return;
  const [a, b] = [entriesOf(from), entriesOf(to)];
  if (!a || !b) {
    found.push({ at, from: textOf(from), to: textOf(to) });
    return;
  }
  const under = (key: string): string => (at === '' ? key : `${at}.${key}`);
  for (const key of new Set([...b.keys(), ...a.keys()])) walk(under(key), a.get(key), b.get(key), found);
  const shared = (of: Entries, other: Entries) => [...of.keys()].filter((key) => other.has(key));
  // Only the order of lists is compared, because the order of keys in a map does not matter.
  if (Array.isArray(from) && !isDeepStrictEqual(shared(a, b), shared(b, a))) {
    found.push({ at: `${at} (order)`, from: shorten(shared(a, b).join(', ')), to: shorten(shared(b, a).join(', ')) });
  }
}

/** The entries of a map, or of a list whose elements have unique names; null: the value has no entries. */
function entriesOf(value: Json): Entries | null {
  if (typeof value !== 'object' || value === null) return null;
  if (!Array.isArray(value)) return new Map(Object.entries(value));
  const names = value.map((part) => (typeof part === 'string' ? part : (part as { name?: unknown } | null)?.name));
  const named = names.every((name) => typeof name === 'string') && new Set(names).size === names.length;
  return named ? new Map(value.map((part, i) => [names[i] as string, part])) : null;
}

const textOf = (value: Json): string | null => (value === undefined ? null : shorten(JSON.stringify(value)));

const shorten = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

/**
 * Maximum number of applications that both models score. `EXPLAINED_ROWS`: maximum number that are explained with a
 * sampling method.
 */
const ROWS = 1000;
const EXPLAINED_ROWS = 50;
/** Maximum number of evaluations per row for a model to be explained here. */
const MOST_QUESTIONS = 30_000;

type Pair<T> = readonly [from: T, to: T];

/** Mean absolute effect of a column; null: the model does not have the column, or effects in another space. */
interface ColumnEffects {
  readonly column: string;
  readonly from: number | null;
  readonly to: number | null;
}

/** The scores of both models for the same applications. */
interface ComparedScores {
  /** The package that contains the background sample. */
  readonly of: string;
  readonly rows: number;
  /** Number of rows that only the first model rejects, and number of rows that only the second model rejects. */
  readonly rejected: Pair<number>;
  /**
   * Difference of probabilities, values or scores. For several classes, the largest difference of a class. null: the
   * tasks are not comparable.
   */
  readonly difference: { readonly mean: number; readonly largest: number } | null;
  /** Number of rows by change of their decision or most probable class, such as `approve → review`. */
  readonly moved: Readonly<Record<string, number>>;
  /** Mean effects, largest first. Empty: the effects of the models are in different spaces or unavailable. */
  readonly effects: readonly ColumnEffects[];
  readonly space: Space | null;
}

interface PackageComparison {
  readonly from: string;
  readonly to: string;
  readonly packageSha256: Pair<string>;
  readonly sameModelFile: boolean;
  readonly differences: readonly Difference[];
  /** null: no background sample contains the columns of both models and a row that both accept. */
  readonly scores: ComparedScores | null;
}

/** @throws SluiceError model_invalid | model_hash_mismatch | model_failed */
export async function comparePackages(from: ModelPackage, to: ModelPackage): Promise<PackageComparison> {
  return {
    from: from.ref,
    to: to.ref,
    packageSha256: [from.sha256, to.sha256],
    sameModelFile: from.manifest.onnx.sha256 === to.manifest.onnx.sha256,
    differences: manifestDifferences(from.manifest, to.manifest),
    scores: await compareScores(from, to),
  };
}

interface Table {
  readonly header: readonly string[];
  readonly rows: readonly string[][];
}

/** The background sample of a package; null: it has none. */
async function backgroundOf(model: ModelPackage): Promise<Table | null> {
  const name = model.manifest.explain?.background;
  if (name === undefined || !model.files.some((f) => f.name === name)) return null;
  const text = (await readPackageFile(model, name)).toString();
  try {
    const options = { bom: true, skip_empty_lines: true, record_delimiter: ['\r\n', '\n', '\r'] };
    const [header = [], ...rows] = parse(text, options) as string[][];
    return { header, rows: rows.slice(0, ROWS) };
  } catch (cause) {
    throw new SluiceError('model_invalid', `${model.ref}: ${name} cannot be read`, { cause });
  }
}

const encoded = ({ columns }: Manifest, { header }: Table): number[] => columns.map((c) => header.indexOf(c.name));

async function compareScores(from: ModelPackage, to: ModelPackage): Promise<ComparedScores | null> {
  for (const model of [from, to]) {
    const table = await backgroundOf(model);
    if (!table) continue;
    const lacking = [from, to].some(({ manifest }) => encoded(manifest, table).includes(-1));
    if (lacking) continue;
    const taken = [from, to].map(({ manifest }) => encodeRows(manifest, table.rows, encoded(manifest, table)).rejected);
    const rows = table.rows.filter((_, r) => !taken.some((rejected) => rejected.has(r)));
    if (rows.length === 0) continue;
    const only = (own: 0 | 1): number => [...taken[own]!.keys()].filter((r) => !taken[1 - own]!.has(r)).length;
    const compared = await scoreBoth([from, to], { header: table.header, rows });
    return { of: model.ref, rows: rows.length, rejected: [only(0), only(1)], ...compared };
  }
  return null;
}

interface Scored {
  readonly manifest: Manifest;
  readonly interpreter: Interpreter;
  readonly scores: Scores;
  readonly effects: MeanEffects | null;
}

type Compared = Pick<ComparedScores, 'difference' | 'moved' | 'effects' | 'space'>;

async function scoreBoth(models: Pair<ModelPackage>, table: Table): Promise<Compared> {
  const [from, to] = [await scoredBy(models[0], table), await scoredBy(models[1], table)];
  const moved: Record<string, number> = {};
  for (let r = 0; r < table.rows.length; r++) {
    const [before, after] = [said(from, r), said(to, r)];
    if (before === after || before === null || after === null) continue;
    const move = `${before || '(none)'} → ${after || '(none)'}`;
    moved[move] = (moved[move] ?? 0) + 1;
  }
  const space = from.effects?.space === to.effects?.space ? (from.effects?.space ?? null) : null;
  return {
    difference: differenceOf(from, to, table.rows.length),
    moved,
    effects: space === null ? [] : effectsOf(from, to),
    space,
  };
}

async function scoredBy(model: ModelPackage, table: Table): Promise<Scored> {
  const { manifest } = model;
  const bytes = await readModelBytes(model);
  const probe = await Probe.open(bytes);
  try {
    const evaluator = probeEvaluator(probe, manifest);
    const fields = encoded(manifest, table);
    const all = encodeRows(manifest, table.rows, fields);
    const { values, width } = await evaluator.score(all.inputs, all.rows);
    const scores = { values: values.slice(), width };
    const effects = await meanEffects({ bytes, manifest, evaluator, all });
    return { manifest, interpreter: new Interpreter(manifest), scores, effects };
  } finally {
    probe.close();
  }
}

/** The decision for a row, or its most probable class. null: the model returns only a number. */
function said({ interpreter, scores }: Scored, r: number): string | null {
  if (interpreter.task === 'binary' && interpreter.hasDecisions) {
    return interpreter.decision(interpreter.probability(scores, r), scores);
  }
  return interpreter.task === 'multiclass' ? String(interpreter.classes[interpreter.top(scores, r)]) : null;
}

function differenceOf(from: Scored, to: Scored, rows: number): ComparedScores['difference'] {
  const [a, b] = [from.interpreter, to.interpreter];
  const sameClasses = a.classes.map(String).join('\n') === b.classes.map(String).join('\n');
  if (a.task !== b.task || (a.task === 'multiclass' && !sameClasses)) return null;
  const outputs = a.task === 'multiclass' ? a.classes.length : 1;
  const [x, y] = [new Float64Array(outputs), new Float64Array(outputs)];
  let [sum, largest] = [0, 0];
  for (let r = 0; r < rows; r++) {
    answersOf(a, from.scores, r, x);
    answersOf(b, to.scores, r, y);
    const d = Math.max(...x.map((v, o) => Math.abs(v - y[o]!)));
    sum += d;
    largest = Math.max(largest, d);
  }
  return { mean: sum / rows, largest };
}

interface MeanEffects {
  readonly space: Space;
  readonly ofColumn: ReadonlyMap<string, number>;
}

interface Explaining {
  bytes: Uint8Array;
  manifest: Manifest;
  evaluator: Evaluator;
  all: EncodedRows;
}

/**
 * Mean effects of a model. They are measured against the same applications for both models, so that they are
 * comparable.
 */
async function meanEffects({ bytes, manifest, evaluator, all }: Explaining): Promise<MeanEffects | null> {
  // The method in the package is ignored, because it may need files that are not available here, such as covers.
  const { method: _, ...explain } = manifest.explain ?? {};
  try {
    const options = { bytes, manifest: { ...manifest, explain }, evaluator, background: all, covers: null };
    const { explainer } = await createExplainer(options);
    if (explainer.questions > MOST_QUESTIONS) return null;
    const rows = Array.from({ length: Math.min(all.rows, EXPLAINED_ROWS) }, (_, r) => r);
    const { values } = await explainer.explain(all.inputs, rows);
    const n = manifest.columns.length;
    const sizes = new Float64Array(n);
    const parts = rows.length * explainer.outputs;
    for (let i = 0; i < parts * n; i++) sizes[i % n]! += Math.abs(values[i]!) / parts;
    return { space: explainer.space, ofColumn: new Map(manifest.columns.map(({ name }, c) => [name, sizes[c]!])) };
  } catch (error) {
    if (error instanceof NotExplainable) return null;
    throw error;
  }
}

function effectsOf({ effects: from }: Scored, { effects: to }: Scored): ColumnEffects[] {
  const names = new Set([...to!.ofColumn.keys(), ...from!.ofColumn.keys()]);
  const all = [...names].map((column) => ({
    column,
    from: from!.ofColumn.get(column) ?? null,
    to: to!.ofColumn.get(column) ?? null,
  }));
  const size = (e: ColumnEffects) => Math.max(e.from ?? 0, e.to ?? 0);
  return all.sort((a, b) => size(b) - size(a));
}

/** The comparison as text. */
export function comparisonText({
  from,
  to,
  packageSha256,
  sameModelFile,
  differences,
  scores,
}: PackageComparison): string {
  const [a, b] = packageSha256.map((sha256) => sha256.slice(0, 12));
  const lines = [`${from} → ${to}`, `package ${a}… → ${b}…, ${sameModelFile ? 'the same' : 'another'} model file`];
  if (differences.length === 0) lines.push('model.yaml is identical');
  for (const { at, from: before, to: after } of differences) lines.push(`${at}: ${before ?? '(none)'} → ${after ?? '(none)'}`); // biome-ignore format: one line
  if (!scores)
    return [
      ...lines,
      'scores cannot be compared: no background sample of the two packages is accepted by both models',
    ].join('\n');
  const { of, rows, rejected, difference, moved, effects, space } = scores;
  const number = (n: number | null) => (n === null ? '(none)' : n.toPrecision(3));
  lines.push(
    `scores of ${rows} applications, the background of ${of}: ${difference ? `differ by ${number(difference.mean)} on average and by at most ${number(difference.largest)}` : 'cannot be compared'}`,
  );
  if (rejected[0] > 0) lines.push(`  ${rejected[0]} more are rejected by ${from} alone`);
  if (rejected[1] > 0) lines.push(`  ${rejected[1]} more are rejected by ${to} alone`);
  for (const [move, n] of Object.entries(moved).sort((x, y) => y[1] - x[1])) lines.push(`  ${move}: ${n}`);
  if (space) lines.push(`mean size of effects, in ${space}:`);
  for (const { column, from: before, to: after } of effects) lines.push(`  ${column}: ${number(before)} → ${number(after)}`); // biome-ignore format: one line
  return lines.join('\n');
}
