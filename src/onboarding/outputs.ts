// Determines the outputs of a graph from its first run: which output contains the scores, and which classes the model has.
import { SluiceError } from '../core/errors.ts';
import { type Booster, boosterOf, boosterOutput } from '../inference/boosters/booster.ts';
import { encodeRows } from '../inference/encode/encode-rows.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import type { OutputTensor } from '../inference/evaluate/session.ts';
import { classesOf } from '../inference/onnx/labels.ts';
import { type ClassLabel, zipMaps } from '../inference/onnx/servable.ts';
import { scoreRows } from '../inference/sandbox/sample-scorer.ts';
import { positiveOf } from './classes.ts';
import { type Draft, manifestOf, type OutputPart } from './draft.ts';
import { refusal } from './report-card.ts';
import { missingIn } from './training-table.ts';

/** The outputs of a trial run of the graph. */
interface TrialAnswers {
  readonly tensors: ReadonlyMap<string, OutputTensor>;
  readonly rows: number;
}

/** Evidence from the graph, its outputs and the outcome column. */
interface Evidence {
  readonly zipped: ReadonlySet<string>;
  /**
   * All outputs with float values. `floats`: the outputs that may contain the scores: the output that the user names,
   * else all.
   */
  readonly allFloats: readonly string[];
  readonly floats: readonly string[];
  /** Outputs with one label per row. */
  readonly labels: readonly string[];
  /** The classes that the graph names; null: it names none. */
  readonly classes: readonly ClassLabel[] | null;
  /**
   * The values of the outcome column. `two`: these values as classes, if there are exactly two and the graph names no
   * classes.
   */
  readonly outcomes: readonly string[];
  readonly two: readonly ClassLabel[] | null;
  readonly tensorOf: (output: string) => OutputTensor;
  readonly widthOf: (output: string) => number;
}

/** The outputs that can be class probabilities. */
interface Candidates {
  /** The output with one column per class, if there is one. */
  readonly wide: string | undefined;
  /** Whether there is one output per class. */
  readonly oneEach: boolean;
  /**
   * The output with a single score from 0 to 1 for an outcome with two values. As in exports of neural networks, the
   * score is the probability of one of these values.
   */
  readonly lone: string | undefined;
}

/** The output with the label, if there is one. */
type LabelPart = Pick<OutputPart['onnx'], 'label'>;

/** A placeholder: `manifestOf` sets the hash. */
const FILE = { file: 'model.onnx', sha256: '' };

/**
 * Determines the outputs from the graph and the results of its trial run.
 * @throws SluiceError registration_refused
 */
function describeOutputs(draft: Draft, result: TrialAnswers): OutputPart {
  const booster = boosterOf(draft.model);
  if (booster) return describeBooster(draft, booster);
  const evidence = evidenceOf(draft, result);
  const { floats, labels, classes, two } = evidence;
  if (floats.length === 0)
    throw refusal('no output contains a score: the model returns only a label; export predict_proba');
  for (const z of evidence.zipped) draft.findings.info(`ZipMap is taken out of the graph: ${z} is served as a tensor.`);
  const candidates = candidatesOf(evidence);
  const found = candidates.wide !== undefined || candidates.oneEach || candidates.lone !== undefined;
  const { task, output } = draft.options;
  const classifier = task
    ? task === 'binary' || task === 'multiclass'
    : found || (classes !== null && labels.length > 0) || (two !== null && output !== undefined);
  if (floats.length > 1 && (!classifier || !found))
    throw refusal(`the model has ${floats.length} outputs (${floats.join(', ')}): choose one with --scores`);
  const label: LabelPart = labels[0] === undefined ? {} : { label: labels[0] };
  return classifier ? describeClasses(draft, evidence, candidates, label) : describeValue(draft, evidence, label);
}

/** Describes the output of a booster, whose objective determines the task. */
function describeBooster(draft: Draft, booster: Booster): OutputPart {
  const { options, table, outcome, findings } = draft;
  const { task, objective, targets } = booster;
  if (options.task !== undefined && options.task !== task)
    throw refusal(`--task ${options.task} contradicts the objective ${objective} of the model, which is ${task}`);
  if (options.scores !== undefined) throw refusal('--scores is for ONNX files: this model has one output');
  if (options.output !== undefined && task !== 'binary')
    throw refusal(`--output ${options.output} needs a binary model`);
  if (task === 'regression')
    return { task, onnx: { ...FILE, value: boosterOutput(booster) }, output: { kind: 'value' } };
  const outcomes = outcome === null ? [] : [...(table.profiles.get(outcome)?.distinct?.keys() ?? [])];
  const count = Math.max(2, targets);
  const numbered = Array.from({ length: count }, (_, i) => i);
  const known = knownClasses(draft, booster.classes, count);
  const classes = known ?? assumedClasses(outcomes, count) ?? numbered;
  if (known === null)
    findings.assumed(
      classes === numbered
        ? `the file names no classes; they are assumed to be 0 to ${count - 1}`
        : `the file names no classes; they are assumed to be the values of the outcome column in order: ${classes.join(', ')}`,
    );
  const kind = options.output ?? (booster.logOdds ? 'log_odds' : 'probability');
  const served: OutputPart = {
    task,
    onnx: { ...FILE, probabilities: boosterOutput(booster) },
    classes: [...classes],
    output: { kind },
  };
  return task === 'binary' ? { ...served, positive_class: positiveOf(classes, draft) } : served;
}

function evidenceOf({ model, table, outcome, options }: Draft, { tensors, rows }: TrialAnswers): Evidence {
  const names = model.graph.outputs.map((o) => o.name).filter((n) => tensors.has(n));
  const tensorOf = (n: string) => tensors.get(n)!;
  const widthOf = (n: string) => tensorOf(n).data.length / rows;
  const allFloats = names.filter((n) => {
    const { data } = tensorOf(n);
    return data instanceof Float32Array || data instanceof Float64Array;
  });
  const labels = names.filter((n) => {
    const { data } = tensorOf(n);
    return (Array.isArray(data) || data instanceof BigInt64Array || data instanceof Int32Array) && widthOf(n) === 1;
  });
  const { scores } = options;
  if (scores !== undefined && !allFloats.includes(scores)) {
    throw refusal(`--scores ${scores} is not an output with scores (available: ${allFloats.join(', ') || 'none'})`);
  }
  const classes = classesOf(model.graph);
  const outcomes = outcome === null ? [] : [...(table.profiles.get(outcome)?.distinct?.keys() ?? [])];
  return {
    zipped: new Set(zipMaps(model.graph).map((z) => z.output)),
    allFloats,
    floats: scores === undefined ? allFloats : [scores],
    labels,
    classes,
    outcomes,
    two: classes === null ? fromOutcomes(outcomes, 1) : null,
    tensorOf,
    widthOf,
  };
}

function candidatesOf({ floats, classes, two, zipped, tensorOf, widthOf }: Evidence): Candidates {
  const shares = floats.filter((n) => widthOf(n) === 1 && isShare(tensorOf(n)));
  const lone = two !== null && shares.length === 1 ? shares[0]! : undefined;
  const wide =
    floats.find((n) => zipped.has(n)) ??
    floats.find((n) => widthOf(n) > 1 && addsToOne(tensorOf(n), widthOf(n))) ??
    (lone === undefined ? floats.find((n) => widthOf(n) > 1) : undefined);
  const oneEach =
    classes !== null && floats.length === classes.length && floats.length > 1 && floats.every((n) => widthOf(n) === 1);
  return { wide, oneEach, lone };
}

/** Describes a model that returns a value: a regression, or a score without a known scale. */
function describeValue({ options, outcome, findings }: Draft, evidence: Evidence, label: LabelPart): OutputPart {
  const { labels, two, tensorOf, widthOf } = evidence;
  const value = evidence.floats[0]!;
  const task = options.task ?? (labels.length > 0 ? 'score' : 'regression');
  if (options.task === undefined && two !== null && labels.length === 0 && isLogit(tensorOf(value))) {
    throw refusal(
      `the outcome ${outcome} has two values (${two.join(', ')}), but ${value} is outside 0…1 and cannot be a probability: use --output log_odds if the sigmoid of it is the probability, or --task score or --task regression to serve it unchanged`,
    );
  }
  const width = widthOf(value);
  if (options.task === undefined && outcome === null && width === 1 && isShare(tensorOf(value))) {
    findings.warn(
      `output ${value} lies in 0…1 and is served as a value because no outcome column is named: if it is a probability, use --outcome or --task binary`,
    );
  }
  if (width !== 1)
    throw refusal(`output ${value} has ${width} values per row, but only one value per row can be served`);
  findings.info(`Output ${value} is a ${task === 'score' ? 'score without a known scale' : 'value'}.`);
  return { task, onnx: { ...FILE, ...label, value }, output: { kind: 'value' } };
}

/** Describes a model that returns class probabilities, or log-odds if the user declares this. */
function describeClasses(draft: Draft, evidence: Evidence, candidates: Candidates, label: LabelPart): OutputPart {
  const { options, findings } = draft;
  const { wide, oneEach, lone } = candidates;
  const probabilities = wide ?? (oneEach ? [...evidence.floats] : (lone ?? evidence.floats[0]!));
  if (lone !== undefined && options.task === undefined && evidence.classes === null && wide === undefined) {
    findings.assumed(
      `output ${lone} lies in 0…1 and the outcome has two values: it is taken as a probability (--task regression to serve it as a value)`,
    );
  }
  const classes = namedClasses(draft, evidence, probabilities);
  const task = classes.length === 2 ? 'binary' : 'multiclass';
  const served: OutputPart = {
    task,
    onnx: { ...FILE, probabilities, ...label },
    classes: [...classes],
    output: { kind: options.output ?? 'probability' },
  };
  if (task === 'binary') return { ...served, positive_class: positiveOf(classes, draft) };
  if (options.output === 'log_odds')
    throw refusal('scores of several classes are served as probabilities only: export with raw_scores off');
  const outputs = Array.isArray(probabilities) ? probabilities.join(', ') : probabilities;
  findings.info(`${outputs} carries probabilities of ${classes.length} classes: ${classes.join(', ')}.`);
  return served;
}

/**
 * The classes in the order of their scores: the classes in the graph, else the values of the outcome column, else 0 and
 * 1 for a binary task.
 */
function namedClasses(
  draft: Draft,
  { classes, outcomes, allFloats, widthOf }: Evidence,
  probabilities: string | readonly string[],
): readonly ClassLabel[] {
  const { options, outcome, findings } = draft;
  const width = typeof probabilities === 'string' ? widthOf(probabilities) : probabilities.length;
  const bare = outcome === null && options.task === 'binary' && width <= 2 ? [0, 1] : null;
  const stated = knownClasses(draft, classes, Math.max(2, width));
  const known = stated ?? assumedClasses(outcomes, width) ?? bare;
  if (!known) {
    throw refusal(
      `the graph does not say which classes the ${width} score${width === 1 ? '' : 's'} of ${probabilities} belong to, and ${outcome === null ? 'no outcome column is named (--outcome)' : `the outcome ${outcome} has another number of values`}${allFloats.length > 1 ? `; or choose another output with --scores (${allFloats.join(', ')})` : ''}`,
    );
  }
  if (width !== 1 && known.length !== width)
    throw refusal(`the model returns ${width} scores for ${known.length} classes`);
  if (known === bare)
    findings.assumed('neither the graph nor a column names the classes; they are assumed to be 0 and 1');
  else if (!stated)
    findings.assumed(
      `the graph names no classes; the classes are assumed to be the values of the outcome column in order: ${known.join(', ')}`,
    );
  return known;
}

/**
 * The classes that the model file names, or that `--encoding` states; null: neither does.
 * @throws SluiceError registration_refused
 */
function knownClasses(
  { options }: Draft,
  named: readonly ClassLabel[] | null,
  count: number,
): readonly ClassLabel[] | null {
  const stated = options.encoding?.classes ?? null;
  if (stated === null) return named;
  if (named !== null && named.join('\n') !== stated.join('\n'))
    throw refusal(
      `classes of --encoding (${stated.join(', ')}) contradict those of the model file (${named.join(', ')})`,
    );
  if (stated.length !== count) throw refusal(`--encoding states ${stated.length} classes, the model has ${count}`);
  return named ?? stated;
}

/**
 * The values of the outcome column as classes, sorted as training libraries sort labels; null: there are too many or too
 * few.
 * @throws SluiceError registration_refused: sorted as texts and as numbers, they have different orders
 */
function assumedClasses(outcomes: readonly string[], width: number): ClassLabel[] | null {
  const labels = fromOutcomes(outcomes, width);
  const asTexts = [...outcomes].sort();
  if (labels === null || labels.every((label, i) => Number(label) === Number(asTexts[i]) || label === asTexts[i]))
    return labels;
  throw refusal(
    `the model file names no classes, and the values of the outcome have another order as texts (${asTexts.join(', ')}) than as numbers (${labels.join(', ')}). State the order in which the model was trained in --encoding: {"classes": ${JSON.stringify(labels)}} if the labels were numbers, {"classes": ${JSON.stringify(asTexts)}} if they were texts`,
  );
}

function fromOutcomes(outcomes: readonly string[], width: number): ClassLabel[] | null {
  const sorted = [...outcomes].sort();
  if (sorted.length !== Math.max(2, width)) return null;
  // pandas writes 0.0 and 1.0 if a column once contained NaN.
  return sorted.every((v) => /^-?\d+(\.0*)?$/.test(v)) ? sorted.map(Number).sort((a, b) => a - b) : sorted;
}

const isShare = ({ data }: OutputTensor): boolean =>
  (data as Float32Array).every((v: number) => Number.isNaN(v) || (v >= 0 && v <= 1));

/** Upper bound of plausible log-odds. The points of a scorecard exceed it. */
const LARGEST_LOGIT = 30;
const isLogit = ({ data }: OutputTensor): boolean =>
  (data as Float32Array).every((v: number) => Number.isNaN(v) || Math.abs(v) < LARGEST_LOGIT);

function addsToOne({ data }: OutputTensor, width: number): boolean {
  const values = data as Float32Array;
  for (let at = 0; at < values.length; at += width) {
    const sum = values.subarray(at, at + width).reduce((a, b) => a + b, 0);
    if (Math.abs(sum - 1) > 1e-3) return false;
  }
  return isShare({ data, dims: [] });
}

// The code below runs the graph for the first time, which also shows how the graph handles a missing value.

const FIRST_ROWS = 32;

/**
 * Runs the graph on a few rows and describes its outputs in the draft. If the encoding of a column's missing values is
 * not determined yet, its first choice is used.
 * @throws SluiceError registration_refused
 */
export async function learnOutputs(draft: Draft): Promise<void> {
  const { probe, columns } = draft;
  const manifest = manifestOf(draft);
  const lenient = {
    ...manifest,
    columns: manifest.columns.map((c, i) =>
      c.missing?.as === 'error' && columns[i]!.choices.length > 0
        ? { ...c, missing: { ...c.missing, ...columns[i]!.choices[0]! } }
        : c,
    ),
  };
  const rows = draft.sample.slice(0, FIRST_ROWS).map((s) => s.fields);
  const encoded = encodeRows(lenient, rows, draft.fields);
  if (encoded.rejected.size === encoded.rows) {
    const [why] = [...encoded.rejected.values()];
    throw refusal(`the first training rows are all rejected: column ${why?.column ?? '?'}, ${why?.code ?? ''}`);
  }
  const single = probe.opened.inputs.some((i) => i.single);
  const n = single ? 1 : encoded.rows;
  const names = [...probe.opened.outputs];
  const [tensors] = await probe.run(encoded.inputs, [[0, n]], names).catch((cause) => {
    if (!(cause instanceof SluiceError) || cause.code !== 'model_failed') throw cause;
    throw refusal(
      `the model fails on the first rows of the training table: ${cause.message}\n${failureCauses(cause.message)}`,
    );
  });
  draft.outputs = describeOutputs(draft, { tensors: new Map(names.map((o, i) => [o, tensors![i]!])), rows: n });
}

/** Describes known causes for the failure of a graph that can be loaded but not run. */
function failureCauses(message: string): string {
  if (/feature|Gemm|MatMul|dimension|shape|TreeEnsemble/i.test(message)) {
    return 'A step returns another number of features than the next step accepts: the exporter omitted a part of the pipeline (skl2onnx does so with SimpleImputer(add_indicator=True)). Check that onnxruntime runs the file in Python, and export that step differently, such as with a separate column for "was missing".';
  }
  return 'Check that onnxruntime runs the file in Python on the same rows.';
}

/**
 * Runs the graph with a missing value in each column that encodes missing values as NaN. If the model returns NaN, it
 * does not support missing values in this column, and such applications are rejected.
 */
export async function checkNaN(draft: Draft): Promise<void> {
  const { columns, fields, findings } = draft;
  const complete = draft.sample
    .map((s) => s.fields)
    .find((row) => columns.every((c, i) => !c.spec.missing!.values!.includes(row[fields[i]!]!)));
  const asked = columns.filter((c) => c.open && c.spec.missing!.as === 'nan');
  if (!complete || asked.length === 0) return;
  const without = (field: number | undefined) => complete.map((cell, f) => (f === field ? '' : cell));
  const manifest = manifestOf(draft);
  const encoded = encodeRows(manifest, [complete, ...asked.map((c) => without(fields[columns.indexOf(c)]))], fields);
  if (encoded.rejected.size > 0) return;
  const scores = await scoreRows(draft.probe, manifest, encoded);
  const interpreter = new Interpreter(manifest);
  if (!interpreter.finite(scores, 0)) return;
  asked.forEach((c, i) => {
    if (interpreter.finite(scores, i + 1)) {
      c.open = false;
      if (missingIn(c.profile) > 0) findings.info('missing reaches the model as NaN, which it takes.', c.spec.name);
      return;
    }
    c.choices = c.choices.filter((choice) => choice.as !== 'nan');
    c.spec.missing = { values: c.spec.missing!.values!, as: 'error' };
  });
}
