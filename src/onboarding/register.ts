// `model add`: looks into the ONNX file and the training table, proposes a package, proves what can be proved, writes it.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { VERSION } from '../core/version.ts';
import type { Scores } from '../inference/evaluate/evaluator.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import type { OutputTensor } from '../inference/evaluate/session.ts';
import { createExplainer } from '../inference/explain/choose-explainer.ts';
import { DEFAULT_PAIRS } from '../inference/explain/coalitions.ts';
import { NotExplainable } from '../inference/explain/explainer.ts';
import type { Covers } from '../inference/explain/trees.ts';
import { type OnnxModel, readOnnx } from '../inference/onnx/graph.ts';
import { categoryKey, knownCategories, looksIsotonic, refusals } from '../inference/onnx/servable.ts';
import { Probe } from '../inference/sandbox/probe.ts';
import {
  checkBatchInvariance,
  type EncodedRows,
  encodeRows,
  probeEvaluator,
  scoreRows,
} from '../inference/sandbox/sample-scorer.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { scoreOutputs } from '../model/package/model-package.ts';
import { computeBaseline } from './baseline.ts';
import {
  assignColumns,
  checkNames,
  type DraftColumn,
  draftColumn,
  type MissingChoice,
  tellExactness,
} from './columns.ts';
import { type EncodingFile, NO_ENCODING } from './encoding-file.ts';
import { compare, difference, type Expected, type ExpectedTable, expectedFor } from './expected.ts';
import { Findings, plural } from './findings.ts';
import { describeOutputs, type OutputOptions } from './outputs.ts';
import { isInvariant, type Report, selfTestText } from './report.ts';
import { booleanWord, missingIn, readTable, type TrainingTable } from './table.ts';

export interface RegisterOptions {
  onnxFile: string;
  trainingFile: string;
  id: string;
  version: string | number;
  delimiter?: string;
  description?: string;
  outcome?: string;
  ignore?: readonly string[];
  encoding?: EncodingFile;
  task?: Manifest['task'];
  positiveClass?: string;
  output?: 'probability' | 'log_odds';
  /** The output of the graph that carries the scores; default: found out. */
  scores?: string;
  /** Predictions of the training library, row by row for the training table. */
  expected?: ExpectedTable;
  /** Other applications the predictions belong to. */
  expectedRows?: { header: readonly string[]; rows: readonly (readonly string[])[] };
  tolerance?: number;
  requireBatchInvariance?: boolean;
  /** covers.json: training rows at the nodes of the trees, for path-dependent effects. */
  covers?: string;
  /** Milliseconds the speed is measured for; default 700. */
  benchMs?: number;
}

export interface Proposal {
  manifest: Manifest;
  report: Report;
  /** File name → content, model.yaml not among them. */
  files: ReadonlyMap<string, string | Uint8Array>;
}

/** Rows scored for the statistics, and for the self-test of the package. */
const SCORED_ROWS = 5000;
const SELF_TEST_ROWS = 200;
const BACKGROUND_ROWS = 100;
/** Rounding stays below this; beyond, rows see each other. */
const NEIGHBOURS = 1e-4;
const BENCH_ROWS = 512;
const BENCH_MS = 700;

/** First bytes of what people take for an ONNX file. */
const NOT_ONNX: readonly (readonly [string, string])[] = [
  ['version https://git-lfs', 'a Git LFS pointer (git lfs pull fetches the file itself)'],
  ['PK', 'a zip archive (PyTorch, Keras or skops?)'],
  ['\x80\x03', 'a Python pickle'],
  ['\x80\x04', 'a Python pickle'],
  ['\x80\x05', 'a Python pickle'],
  ['<', 'a web page or XML (PMML?)'],
  ['{', 'JSON (a model of XGBoost or CatBoost?)'],
  ['tree\n', 'a text model of LightGBM'],
  ['\x89HDF', 'an HDF5 file (Keras?)'],
  ['\x1f\x8b', 'compressed'],
];

const refuse = (text: string): SluiceError => new SluiceError('registration_refused', text);

/**
 * Builds a package in memory.
 * @throws SluiceError registration_refused with every reason found, model_invalid, training_data_invalid, self_test_failed
 */
export async function proposePackage(options: RegisterOptions): Promise<Proposal> {
  const bytes = await readFile(options.onnxFile).catch((cause) => {
    throw new SluiceError('input_not_found', `${options.onnxFile} cannot be opened`, { cause });
  });
  const other = NOT_ONNX.find(([magic]) => bytes.subarray(0, 64).toString('latin1').startsWith(magic));
  if (other) throw new SluiceError('model_invalid', `${options.onnxFile} is ${other[1]}, not an ONNX file`);
  const model = readOnnx(bytes);
  const reasons = refusals(model);
  if (reasons.length > 0) throw refuse(reasons.join('\n'));
  const findings = new Findings();
  const table = await readTable(options.trainingFile, options.delimiter);
  const probe = await Probe.open(bytes);
  try {
    return await propose(options, bytes, model, table, probe, findings);
  } finally {
    probe.close();
  }
}

async function propose(
  options: RegisterOptions,
  bytes: Uint8Array,
  model: OnnxModel,
  table: TrainingTable,
  probe: Probe,
  findings: Findings,
): Promise<Proposal> {
  const encoding = options.encoding ?? NO_ENCODING;
  checkNames(encoding, table.header);
  const outcome = outcomeOf(options, table, findings);
  const inputs = assignColumns(
    probe.opened.inputs,
    table,
    { outcome, ignore: options.ignore ?? [], encoding },
    findings,
  );
  const known = knownCategories(model.graph);
  const problems: string[] = [];
  const drafts = inputs.flatMap((input) =>
    (input.columns ?? [input.column!]).map((name, at) =>
      draftColumn(
        name,
        input,
        table.profiles.get(name)!,
        known.get(categoryKey(input.name, at)),
        encoding,
        findings,
        problems,
      ),
    ),
  );
  if (problems.length > 0) throw refuse(problems.join('\n'));
  tellExactness(drafts, findings);
  const ordered = [...drafts].sort((a, b) => table.header.indexOf(a.spec.name) - table.header.indexOf(b.spec.name));
  const draft = (): Manifest => ({
    id: options.id,
    version: options.version,
    task: 'regression',
    onnx: { file: 'model.onnx', sha256: '0'.repeat(64), value: '' },
    columns: ordered.map((d) => d.spec),
    inputs,
  });
  const fields = ordered.map((d) => table.header.indexOf(d.spec.name));
  const sample = table.sample.slice(0, SCORED_ROWS);

  const first = await firstRun(
    probe,
    draft(),
    sample.slice(0, 32).map((s) => s.fields),
    fields,
    ordered,
  );
  const outcomes = outcome === null ? [] : [...(table.profiles.get(outcome)?.distinct?.keys() ?? [])];
  const outputOptions: OutputOptions = {
    outcome,
    outcomes,
    ...(options.task ? { task: options.task } : {}),
    ...(options.positiveClass === undefined ? {} : { positiveClass: options.positiveClass }),
    ...(options.output ? { output: options.output } : {}),
    ...(options.scores === undefined ? {} : { scores: options.scores }),
  };
  const outputs = describeOutputs(model, first.results, first.rows, outputOptions, findings);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const manifest = (): Manifest => ({
    ...draft(),
    ...(options.description ? { description: options.description } : {}),
    ...(outcome === null ? {} : { outcome }),
    ...outputs,
    onnx: { ...outputs.onnx, sha256 },
  });

  await refuseNaN(
    probe,
    manifest(),
    sample.map((s) => s.fields),
    fields,
    ordered,
    findings,
  );
  const test = options.expected ? expectation(options, table, manifest(), ordered, fields) : null;
  const tolerance = options.tolerance ?? 1e-6;
  if (test) await resolveMissing(probe, manifest, ordered, test, tolerance, findings);
  for (const d of ordered) {
    if (d.spec.missing?.as !== 'error' || !d.open) continue;
    const gone = missingIn(d.profile);
    const text = `the model cannot take a missing value and nothing shows what training made of it: such applications are rejected (--encoding, missing)`;
    if (gone > 0) findings.warn(`${text}; ${plural(gone, 'training row')} would be`, d.spec.name);
    else findings.assumed(text, d.spec.name);
  }

  const final = manifest();
  const encoded = encodeRows(
    final,
    sample.map((s) => s.fields),
    fields,
  );
  if (encoded.rejected.size === encoded.rows)
    throw refuse('every row of the training table is rejected by the encoding rules');
  const scores = await scoreRows(probe, final, encoded);
  const values = checkScores(final, scores, encoded, findings);
  const outcomeRate = compareWithOutcome(final, table, sample, values, findings);
  compareWithValues(final, table, sample, values, findings);
  if (looksIsotonic(model.graph)) {
    findings.warn(
      'looks isotonic-calibrated: exporters write steps that differ from the training library by up to 0.05; calibrate with method="sigmoid", or check with --expected',
    );
  }
  const tested = test ? await runSelfTest(probe, final, test, tolerance) : null;
  const selfTest = tested?.result ?? null;
  if (!test)
    findings.warn(
      'was not compared with predictions of the training library (--expected): a wrong encoding would not be noticed',
    );
  if (selfTest && !selfTest.passed) {
    throw new SluiceError(
      'self_test_failed',
      `${selfTestText(selfTest)}\n${likelyCauses(model, table, ordered, tellTale(final, test!, tested!.scores))}`,
    );
  }
  const batchInvariance = await checkBatchInvariance(probe, final, encoded);
  if (!isInvariant(batchInvariance)) {
    const text = `scores change with the batch size by up to ${batchInvariance.largest}`;
    if (batchInvariance.largest > NEIGHBOURS) {
      throw refuse(
        `${text}: what an application gets depends on the others beside it, or on chance. Some node mixes rows (a mean or a maximum over the batch, BatchNormalization in training mode) or draws random numbers: export the model in evaluation mode`,
      );
    }
    if (options.requireBatchInvariance) throw refuse(text);
    findings.warn(text);
  }
  const report = await finish(options, final, model, bytes, table, probe, encoded, findings, {
    selfTest,
    batchInvariance,
    outcomeRate,
    values,
  });
  const sound = sample.filter((_, i) => !encoded.rejected.has(i)).map((s) => s.fields);
  const files = new Map<string, string | Uint8Array>([
    ['model.onnx', bytes],
    ['background.csv', toCsv(final, pickRows(sound, BACKGROUND_ROWS), fields)],
  ]);
  final.explain = await chooseExplanation(
    options,
    final,
    bytes,
    probe,
    pickRows(sound, BACKGROUND_ROWS),
    fields,
    files,
    report,
    findings,
  );
  if (test) addSelfTest(final, files, test, encodeRows(final, test.rows, test.fields).rejected, tolerance);
  final.baseline = computeBaseline(table, ordered, values);
  return { manifest: final, report, files };
}

function outcomeOf(options: RegisterOptions, table: TrainingTable, findings: Findings): string | null {
  if (options.outcome !== undefined) {
    if (table.header.includes(options.outcome)) return options.outcome;
    throw refuse(`the training table has no outcome column ${options.outcome} (it has ${table.header.join(', ')})`);
  }
  if (!table.header.includes('ok')) {
    findings.info('The training table has no outcome column ok; --outcome names another.');
    return null;
  }
  findings.info('Outcome column: ok.');
  return 'ok';
}

/** Runs the graph once to see what comes out of it; columns whose missing values cannot be encoded yet are filled. */
async function firstRun(
  probe: Probe,
  manifest: Manifest,
  rows: readonly (readonly string[])[],
  fields: readonly number[],
  drafts: readonly DraftColumn[],
): Promise<{ results: Map<string, OutputTensor>; rows: number }> {
  const lenient = {
    ...manifest,
    columns: manifest.columns.map((c, i) =>
      c.missing?.as === 'error' && drafts[i]!.choices.length > 0
        ? { ...c, missing: { ...c.missing, ...drafts[i]!.choices[0]! } }
        : c,
    ),
  };
  const encoded = encodeRows(lenient, rows, fields);
  if (encoded.rejected.size === encoded.rows) {
    const [why] = [...encoded.rejected.values()];
    throw refuse(`the first training rows are all rejected: column ${why?.column ?? '?'}, ${why?.code ?? ''}`);
  }
  const single = probe.opened.inputs.some((i) => i.single);
  const n = single ? 1 : encoded.rows;
  const outputs = [...probe.opened.outputs];
  const [tensors] = await probe.run(encoded.inputs, [[0, n]], outputs).catch((cause) => {
    if (!(cause instanceof SluiceError) || cause.code !== 'model_failed') throw cause;
    throw refuse(
      `the model fails on the first rows of the training table: ${cause.message}\n${failureCauses(cause.message)}`,
    );
  });
  return { results: new Map(outputs.map((o, i) => [o, tensors![i]!])), rows: n };
}

/** What a graph that loads and does not run is known for. */
function failureCauses(message: string): string {
  if (/feature|Gemm|MatMul|dimension|shape|TreeEnsemble/i.test(message)) {
    return 'A step hands on another number of features than the next one takes: the exporter left a part of the pipeline out (skl2onnx does so with SimpleImputer(add_indicator=True)). Check that onnxruntime runs the file in Python, and export that step in another way, such as a column of its own for "was missing".';
  }
  return 'Check that onnxruntime runs the file in Python on the same rows.';
}

/** Feeds a missing value in each column that would become NaN; where the model answers with NaN it cannot take it. */
async function refuseNaN(
  probe: Probe,
  manifest: Manifest,
  sample: readonly (readonly string[])[],
  fields: readonly number[],
  drafts: readonly DraftColumn[],
  findings: Findings,
): Promise<void> {
  const whole = sample.find((row) => drafts.every((d, i) => !d.spec.missing!.values!.includes(row[fields[i]!]!)));
  const asked = drafts.filter((d) => d.open && d.spec.missing!.as === 'nan');
  if (!whole || asked.length === 0) return;
  const rows = [whole, ...asked.map((d) => whole.map((cell, f) => (f === fields[drafts.indexOf(d)] ? '' : cell)))];
  const encoded = encodeRows(manifest, rows, fields);
  if (encoded.rejected.size > 0) return;
  const scores = await scoreRows(probe, manifest, encoded);
  const interpreter = new Interpreter(manifest);
  if (!interpreter.finite(scores, 0)) return;
  asked.forEach((d, i) => {
    if (interpreter.finite(scores, i + 1)) {
      d.open = false;
      if (missingIn(d.profile) > 0) findings.info('missing reaches the model as NaN, which it takes.', d.spec.name);
      return;
    }
    d.choices = d.choices.filter((c) => c.as !== 'nan');
    d.spec.missing = { values: d.spec.missing!.values!, as: 'error' };
  });
}

interface Expectation {
  expected: Expected;
  rows: readonly (readonly string[])[];
  /** Per row: its row in the expectation. */
  rowOf: readonly number[];
  fields: readonly number[];
}

function expectation(
  options: RegisterOptions,
  table: TrainingTable,
  manifest: Manifest,
  drafts: readonly DraftColumn[],
  fields: readonly number[],
): Expectation {
  const file = options.expected!;
  const expected = expectedFor(file, manifest);
  const own = options.expectedRows ?? (drafts.every((d) => file.header.includes(d.spec.name)) ? file : null);
  if (own) {
    const missing = drafts.filter((d) => !own.header.includes(d.spec.name));
    if (missing.length > 0)
      throw refuse(`the rows of the self-test lack ${missing.map((d) => d.spec.name).join(', ')}`);
    if (own.rows.length !== expected.rows) {
      throw refuse(`${own.rows.length} rows to test, but ${expected.rows} predictions`);
    }
    const every = Math.max(1, Math.ceil(own.rows.length / SCORED_ROWS));
    const rowOf = own.rows.map((_, i) => i).filter((i) => i % every === 0);
    return {
      expected,
      rows: rowOf.map((i) => own.rows[i]!),
      rowOf,
      fields: drafts.map((d) => own.header.indexOf(d.spec.name)),
    };
  }
  if (expected.rows !== table.rows) {
    throw refuse(
      `${file.file} has ${expected.rows} predictions, the training table ${table.rows} rows: give one prediction a row, or the rows they belong to (--expected-rows)`,
    );
  }
  const part = table.sample.slice(0, SCORED_ROWS);
  return { expected, rows: part.map((s) => s.fields), rowOf: part.map((s) => s.row), fields };
}

/** Tries what training may have made of missing values, column by column, and keeps what reproduces the predictions. */
async function resolveMissing(
  probe: Probe,
  manifest: () => Manifest,
  drafts: readonly DraftColumn[],
  test: Expectation,
  tolerance: number,
  findings: Findings,
): Promise<void> {
  const undecided = drafts.filter((d, i) => {
    const words = d.spec.missing!.values!;
    return d.choices.length > 1 && test.rows.some((r) => words.includes(r[test.fields[i]!]!));
  });
  if (undecided.length === 0) return;
  const before = new Map(undecided.map((d) => [d, d.spec.missing!]));
  const cost = async (rows: readonly number[]): Promise<number> => {
    const m = manifest();
    const encoded = encodeRows(
      m,
      rows.map((r) => test.rows[r]!),
      test.fields,
    );
    if (encoded.rejected.size === encoded.rows) return rows.length;
    const scores = await scoreRows(probe, m, encoded);
    const interpreter = new Interpreter(m);
    let sum = 0;
    rows.forEach((r, i) => {
      const d = encoded.rejected.has(i) ? 1 : difference(interpreter, scores, i, test.expected, test.rowOf[r]!);
      if (d !== null && !(d <= tolerance)) sum += Number.isNaN(d) ? 1 : Math.min(1, d);
    });
    return sum;
  };
  const all = test.rows.map((_, i) => i);
  if ((await cost(all)) === 0) return;
  for (const d of undecided) if (d.spec.missing!.as === 'error') choose(d, d.choices[0]!);
  for (let pass = 0; pass < 2; pass++) {
    for (const d of undecided) {
      const field = test.fields[drafts.indexOf(d)]!;
      const rows = all.filter((r) => d.spec.missing!.values!.includes(test.rows[r]![field]!)).slice(0, 300);
      const current = d.spec.missing!;
      let best = { choice: current as MissingChoice, sum: await cost(rows) };
      for (const choice of [...d.choices, ...typical(d, test, field)]) {
        if (best.sum === 0) break;
        choose(d, choice);
        const sum = await cost(rows);
        if (sum < best.sum) best = { choice, sum };
      }
      choose(d, best.choice);
    }
  }
  for (const d of undecided) {
    const field = test.fields[drafts.indexOf(d)]!;
    const rows = all.filter((r) => d.spec.missing!.values!.includes(test.rows[r]![field]!));
    const was = before.get(d)!;
    if ((await cost(rows)) > 0) d.spec.missing = was;
    else {
      d.open = false;
      const now = d.spec.missing!;
      if (now.as !== was.as || now.value !== was.value) {
        findings.info(
          `missing becomes ${now.as === 'nan' ? 'NaN' : JSON.stringify(now.value)}: that is what reproduces the given predictions.`,
          d.spec.name,
        );
      }
    }
  }
}

function choose(d: DraftColumn, choice: MissingChoice): void {
  const { values: _, ...rest } = choice;
  d.spec.missing = { values: d.spec.missing!.values!, ...rest };
}

/** Median and mean of a number column, the most frequent text of another: what imputers take. */
function typical(d: DraftColumn, test: Expectation, field: number): MissingChoice[] {
  const words = new Set(d.spec.missing!.values);
  if (d.input.type === 'bool') return [];
  if (d.spec.kind !== 'number') {
    const top = [...(d.profile.distinct ?? [])].sort((a, b) => b[1] - a[1])[0]?.[0];
    return top === undefined || d.spec.kind !== 'category' || d.spec.codes ? [] : [{ as: 'value', value: top }];
  }
  const numbers = test.rows.flatMap((r) => (words.has(r[field]!) ? [] : [Number(r[field])])).sort((a, b) => a - b);
  if (numbers.length === 0) return [];
  const middle = numbers.length >> 1;
  const median = numbers.length % 2 ? numbers[middle]! : (numbers[middle - 1]! + numbers[middle]!) / 2;
  const mean = numbers.reduce((a, b) => a + b, 0) / numbers.length;
  return [median, mean].map((value): MissingChoice => ({ as: 'value', value }));
}

/** Refuses raw scores that are called probabilities; returns the score of every sound row. @throws SluiceError */
function checkScores(manifest: Manifest, scores: Scores, encoded: EncodedRows, findings: Findings): number[] {
  const interpreter = new Interpreter(manifest);
  const values: number[] = [];
  let notFinite = 0;
  let outside = 0;
  for (let r = 0; r < encoded.rows; r++) {
    if (encoded.rejected.has(r)) continue;
    if (!interpreter.finite(scores, r)) {
      notFinite++;
      continue;
    }
    if (interpreter.isOdd(scores, r)) outside++;
    values.push(
      manifest.task === 'binary'
        ? interpreter.probability(scores, r)
        : manifest.task === 'multiclass'
          ? scores.values[r * scores.width]!
          : interpreter.value(scores, r),
    );
  }
  if (outside > 0) {
    throw refuse(
      `the output called probabilities holds raw scores (${plural(outside, 'row')} outside 0…1 or not adding up to 1): export with options={'raw_scores': False}${manifest.task === 'binary' ? ', or register them as what they are with --output log_odds' : ''}`,
    );
  }
  if (notFinite > 0)
    findings.warn(
      `the model answers ${plural(notFinite, 'training row')} with NaN or infinity; such applications are rejected`,
    );
  if (encoded.rejected.size > 0) {
    const by = Map.groupBy(encoded.rejected.values(), (r) => `${r.column ?? ''} ${r.code}`);
    for (const [what, list] of by)
      findings.warn(`${plural(list.length, 'row')} of the sample would be rejected: ${what.trim()}`);
  }
  if (values.length === 0) throw refuse('the model answers every training row with NaN or infinity');
  return values;
}

function compareWithOutcome(
  manifest: Manifest,
  table: TrainingTable,
  sample: TrainingTable['sample'],
  values: readonly number[],
  findings: Findings,
): number | null {
  if (manifest.task !== 'binary' || manifest.outcome === undefined) return null;
  const field = table.header.indexOf(manifest.outcome);
  const positive = String(manifest.positive_class);
  const answers = sample.map((s) => s.fields[field]!);
  const hits = answers.filter((a) => meansClass(a, positive)).length;
  if (hits === 0) return null;
  const rate = hits / answers.length;
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const backwards =
    rate < 1 && values.length === answers.length
      ? wrongWay(
          answers.map((a) => meansClass(a, positive)),
          values,
        )
      : null;
  if (backwards !== null) {
    findings.warn(
      `rows with ${manifest.outcome} = ${positive} score ${backwards[0].toFixed(3)} on average and the others ${backwards[1].toFixed(3)}: this looks like the probability of the other class (--positive-class), or a wrong encoding`,
    );
  } else if (Math.abs(mean - rate) > Math.abs(mean - (1 - rate)) + 0.05) {
    findings.warn(
      `the mean probability is ${mean.toFixed(3)}, the share of ${manifest.outcome} = ${positive} is ${rate.toFixed(3)}: this looks like the probability of the other class`,
    );
  } else if (Math.abs(mean - rate) > 0.1) {
    findings.warn(
      `the mean probability is ${mean.toFixed(3)}, but the share of ${manifest.outcome} = ${positive} is ${rate.toFixed(3)}`,
    );
  }
  return rate;
}

/** Mean scores of the positive rows and of the others, if the model ranks them the wrong way round. */
function wrongWay(positive: readonly boolean[], values: readonly number[]): [number, number] | null {
  const sums = [0, 0];
  const counts = [0, 0];
  let squares = 0;
  positive.forEach((p, i) => {
    sums[p ? 0 : 1]! += values[i]!;
    counts[p ? 0 : 1]!++;
    squares += values[i]! ** 2;
  });
  const [a, b] = [sums[0]! / counts[0]!, sums[1]! / counts[1]!];
  const mean = (sums[0]! + sums[1]!) / positive.length;
  const deviation = Math.sqrt(Math.max(0, squares / positive.length - mean ** 2));
  // Four standard errors: noise does not get there.
  return b - a > 4 * deviation * Math.sqrt(1 / counts[0]! + 1 / counts[1]!) ? [a, b] : null;
}

const LINKS: readonly (readonly [string, string, (v: number) => number])[] = [
  ['exp', 'its logarithm (some exporters of Poisson, gamma and Tweedie models leave the exponential out)', Math.exp],
  ['expm1', 'its log1p', Math.expm1],
  ['square', 'its square root (LightGBM reg_sqrt)', (v) => v * v],
  ['logistic', 'its log-odds (XGBoost reg:logistic is exported without the sigmoid)', (v) => 1 / (1 + Math.exp(-v))],
];

/** A regression that explains its own training table worse than a constant: exported without its last step, or wrongly fed. */
function compareWithValues(
  manifest: Manifest,
  table: TrainingTable,
  sample: TrainingTable['sample'],
  values: readonly number[],
  findings: Findings,
): void {
  if (manifest.task !== 'regression' || manifest.outcome === undefined || values.length !== sample.length) return;
  const field = table.header.indexOf(manifest.outcome);
  const answers = sample.map((s) => (s.fields[field] === '' ? Number.NaN : Number(s.fields[field])));
  const known = answers.map((_, i) => i).filter((i) => Number.isFinite(answers[i]!));
  if (known.length < 20) return;
  const mean = known.reduce((a, i) => a + answers[i]!, 0) / known.length;
  const spread = known.reduce((a, i) => a + (answers[i]! - mean) ** 2, 0);
  const explained = (f: (v: number) => number) =>
    1 - known.reduce((a, i) => a + (answers[i]! - f(values[i]!)) ** 2, 0) / spread;
  const own = explained((v) => v);
  if (!(spread > 0) || own >= 0) return;
  const [best] = LINKS.map(([, words, f]) => ({ words, share: explained(f) })).sort((a, b) => b.share - a.share);
  findings.warn(
    best && best.share > 0 && best.share > own + 0.1
      ? `the values do not look like ${manifest.outcome} but like ${best.words}: as they are, a constant would fit the training table better. Check with --expected`
      : `the values fit ${manifest.outcome} worse than a constant would: another encoding, another order of columns, or another outcome. Check with --expected`,
  );
}

/** true if a cell of the outcome column says this class: the same text, number, or 1 and 0 as words. */
function meansClass(cell: string, label: string): boolean {
  if (cell === label) return true;
  const word = booleanWord(cell);
  return word === undefined ? cell !== '' && Number(cell) === Number(label) : String(Number(word)) === label;
}

async function runSelfTest(probe: Probe, manifest: Manifest, test: Expectation, tolerance: number) {
  const encoded = encodeRows(manifest, test.rows, test.fields);
  if (encoded.rejected.size === encoded.rows)
    throw refuse('every row of the self-test is rejected by the encoding rules');
  const scores = await scoreRows(probe, manifest, encoded);
  const result = compare(manifest, scores, encoded.rejected, test.expected, test.rowOf, tolerance);
  const { values, width } = scores;
  return {
    result: { ...result, tolerance, passed: result.beyond === 0 && result.rows > 0, source: 'the training library' },
    scores: { values: values.slice(), width },
  };
}

/** What the predictions themselves give away: another class, labels in place of probabilities, rounding. */
function tellTale(manifest: Manifest, test: Expectation, scores: Scores): string[] {
  const { expected } = test;
  if (expected.classes.length !== 1 || expected.classes[0] !== -1) return [];
  const want = test.rowOf.map((r) => expected.values[r]!);
  const known = want.map((_, i) => i).filter((i) => Number.isFinite(want[i]!));
  const interpreter = new Interpreter(manifest);
  const binary = manifest.task === 'binary';
  const got = (i: number) => (binary ? interpreter.probability(scores, i) : interpreter.value(scores, i));
  const within = (f: (v: number) => number, d: number) =>
    known.every((i) => Math.abs(f(got(i)) - want[i]!) <= d * Math.max(1, Math.abs(want[i]!)));
  if (binary) {
    const [other] = manifest.classes!.filter((c) => c !== manifest.positive_class);
    if (within((v) => 1 - v, 1e-5)) return [`the predictions are those of class ${other}: --positive-class ${other}`];
    if (known.every((i) => want[i] === 0 || want[i] === 1))
      return ['the predictions are classes, no probabilities: save predict_proba'];
  }
  for (const [, words, f] of LINKS)
    if (within(f, 1e-4)) return [`the model does not answer with what the library predicts but with ${words}`];
  const digits = known.reduce((n, i) => Math.max(n, (String(want[i]).split('.')[1] ?? '').length), 0);
  if (digits <= 5 && within((v) => v, 0.6 * 10 ** -digits))
    return [
      `the predictions are rounded to ${digits} digits: save them as they are, or say --tolerance ${10 ** -digits}`,
    ];
  return [];
}

function likelyCauses(
  model: OnnxModel,
  table: TrainingTable,
  drafts: readonly DraftColumn[],
  told: readonly string[],
): string {
  const causes: string[] = [...told];
  if (looksIsotonic(model.graph)) {
    causes.push('isotonic calibration is exported wrongly by up to 0.05: calibrate with method="sigmoid"');
  }
  const inexact = drafts.filter(
    (d) =>
      d.spec.kind === 'number' && d.input.type === 'float32' && (table.profiles.get(d.spec.name)?.inexact ?? 0) > 0,
  );
  if (inexact.length > 0 && model.graph.nodes.some((n) => n.op.startsWith('TreeEnsemble'))) {
    causes.push(
      `the trees were trained on float64 values that float32 cannot hold (${inexact.map((d) => d.spec.name).join(', ')}), so decisions flip near thresholds: train on X.astype("float32")`,
    );
  }
  causes.push('a setting of the training library that its exporter leaves out (docs/models.md lists those known)');
  causes.push('the encoding differs from training: order of columns, codes, what missing became (--encoding)');
  causes.push('the predictions are those of another model, other rows or another class (--positive-class)');
  return `Likely causes:\n${causes.map((c) => `  - ${c}`).join('\n')}\nA larger --tolerance accepts the difference and records it.`;
}

function readCovers(text: string): Covers {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SluiceError('usage', `--covers: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
  const lists = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.values(value) : [];
  if (lists.length === 0 || !lists.every((l) => Array.isArray(l) && l.every((n) => typeof n === 'number')))
    throw new SluiceError('usage', '--covers takes {"<tree id>": [training rows at node 0, 1, …]}');
  return value as Covers;
}

interface Checked {
  selfTest: Report['selfTest'];
  batchInvariance: Report['batchInvariance'];
  outcomeRate: number | null;
  values: readonly number[];
}

/** Picks the method of interpretation by making it: what works here works in the service. */
async function chooseExplanation(
  options: RegisterOptions,
  manifest: Manifest,
  bytes: Uint8Array,
  probe: Probe,
  rows: readonly (readonly string[])[],
  fields: readonly number[],
  files: Map<string, string | Uint8Array>,
  report: Report,
  findings: Findings,
): Promise<NonNullable<Manifest['explain']>> {
  const explain: NonNullable<Manifest['explain']> = { background: 'background.csv' };
  let covers: Covers | null = null;
  if (options.covers) {
    covers = readCovers(options.covers);
    files.set('covers.json', options.covers);
    explain.covers = 'covers.json';
    explain.method = 'tree_path_dependent';
  }
  const background = encodeRows(manifest, rows, fields);
  try {
    const { explainer, reasons } = await createExplainer({
      bytes,
      manifest: { ...manifest, explain },
      evaluator: probeEvaluator(probe, manifest),
      background,
      covers,
    });
    explain.method = explainer.method;
    explain.space = explainer.space;
    report.interpretation = { method: explainer.method, space: explainer.space, reasons };
    const how =
      explainer.method === 'sampling'
        ? `Effects are estimated by sampling, with standard errors: ${reasons.join('; ')}.`
        : `Effects of the columns are exact (${explainer.method}), in ${explainer.space}, against ${background.rows} training rows.`;
    findings.info(how);
    if (explainer.method === 'sampling') explain.pairs = DEFAULT_PAIRS;
  } catch (cause) {
    if (!(cause instanceof NotExplainable)) throw cause;
    throw refuse(`interpretation: ${cause.message}`);
  }
  if (manifest.task === 'binary') {
    findings.assumed(
      'reasons carry the names of the columns until model.yaml gives them codes and texts (reasons: {column: {code, text}}, or none)',
    );
  }
  return explain;
}

async function finish(
  options: RegisterOptions,
  manifest: Manifest,
  model: OnnxModel,
  bytes: Uint8Array,
  table: TrainingTable,
  probe: Probe,
  encoded: EncodedRows,
  findings: Findings,
  checked: Checked,
): Promise<Report> {
  const { values } = checked;
  return {
    model: `${options.id}:${options.version}`,
    sha256: manifest.onnx.sha256,
    checked: new Date().toISOString(),
    sluice: VERSION,
    onnx: describeOnnx(model, bytes),
    task: manifest.task,
    training: { file: path.basename(table.file), rows: table.rows, sha256: table.sha256 },
    selfTest: checked.selfTest,
    batchInvariance: checked.batchInvariance,
    speed: await measureSpeed(probe, manifest, encoded, options.benchMs),
    scores: {
      mean: values.reduce((a, b) => a + b, 0) / values.length,
      min: values.reduce((a, b) => Math.min(a, b), Infinity),
      max: values.reduce((a, b) => Math.max(a, b), -Infinity),
      outcomeRate: checked.outcomeRate,
    },
    interpretation: null,
    findings: findings.list,
  };
}

export function describeOnnx(model: OnnxModel, bytes: Uint8Array): Report['onnx'] {
  return {
    producer: model.producer || 'unknown',
    irVersion: model.irVersion,
    opsets: Object.fromEntries([...model.opsets].map(([d, v]) => [d === '' ? 'ai.onnx' : d, v])),
    bytes: bytes.length,
  };
}

export async function measureSpeed(
  probe: Probe,
  manifest: Manifest,
  encoded: EncodedRows,
  ms = BENCH_MS,
): Promise<Report['speed']> {
  const batchRows = Math.max(1, Math.min(BENCH_ROWS, encoded.rows));
  const { rowsPerSecond } = await probe.bench(encoded.inputs, batchRows, scoreOutputs(manifest), ms);
  const { loadMs, memoryBytes } = probe.opened;
  return { rowsPerSecond: Math.round(rowsPerSecond), batchRows, loadMs, memoryBytes };
}

/** The same rows whenever they are picked. */
function pickRows<R>(rows: readonly R[], n: number): R[] {
  const random = new Random();
  random.seed(1, 0);
  const left = [...rows];
  const picked: R[] = [];
  while (picked.length < n && left.length > 0)
    picked.push(...left.splice(Math.floor(random.uniform() * left.length), 1));
  return picked;
}

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

/** Rows as a CSV with the columns of the manifest. */
function toCsv(manifest: Manifest, rows: readonly (readonly string[])[], fields: readonly number[]): string {
  const lines = [manifest.columns.map((c) => c.name), ...rows.map((r) => fields.map((f) => r[f]!))];
  return lines.map((l) => `${l.map(quoted).join(',')}\n`).join('');
}

function addSelfTest(
  manifest: Manifest,
  files: Map<string, string | Uint8Array>,
  test: Expectation,
  rejected: ReadonlyMap<number, unknown>,
  tolerance: number,
): void {
  const { expected } = test;
  const width = expected.classes.length;
  const usable = test.rowOf
    .map((_, i) => i)
    .filter((i) => !rejected.has(i) && !Number.isNaN(expected.values[test.rowOf[i]! * width]));
  const rows = pickRows(usable, SELF_TEST_ROWS).sort((a, b) => a - b);
  const header = expected.classes.map((c) =>
    c >= 0 ? `probability.${manifest.classes![c]}` : manifest.task === 'binary' ? 'probability' : 'value',
  );
  const lines = rows.map((i) => {
    const at = test.rowOf[i]! * width;
    return [...expected.values.subarray(at, at + width)].join(',');
  });
  files.set(
    'selftest.csv',
    toCsv(
      manifest,
      rows.map((i) => test.rows[i]!),
      test.fields,
    ),
  );
  files.set('selftest-expected.csv', `${[header.map(quoted).join(','), ...lines].join('\n')}\n`);
  manifest.self_test = { input: 'selftest.csv', expected: 'selftest-expected.csv', tolerance };
}
