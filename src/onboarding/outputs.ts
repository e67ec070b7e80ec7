// What the outputs of a graph are: which carries scores, which classes there are and which is the positive one.
import { SluiceError } from '../core/errors.ts';
import type { OutputTensor } from '../inference/evaluate/session.ts';
import type { OnnxModel } from '../inference/onnx/graph.ts';
import { type ClassLabel, classesOf, zipMaps } from '../inference/onnx/servable.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { Findings } from './findings.ts';

export interface OutputOptions {
  task?: Manifest['task'];
  positiveClass?: string;
  /** How scores are to be taken; default: probabilities. */
  output?: 'probability' | 'log_odds';
  outcome: string | null;
  /** Values of the outcome column in the training table. */
  outcomes: readonly string[];
  /** The output that carries the scores; default: found out. */
  scores?: string;
}

export type OutputPart = Pick<Manifest, 'task' | 'onnx'> &
  Partial<Pick<Manifest, 'classes' | 'positive_class' | 'output'>>;

const refuse = (text: string): SluiceError => new SluiceError('registration_refused', text);

/**
 * Decides from the graph and from what it answered on `rows` rows.
 * @throws SluiceError registration_refused
 */
export function describeOutputs(
  model: OnnxModel,
  results: ReadonlyMap<string, OutputTensor>,
  rows: number,
  options: OutputOptions,
  findings: Findings,
): OutputPart {
  const onnx = { file: 'model.onnx', sha256: '' };
  const zips = new Map(zipMaps(model.graph).map((z) => [z.output, z]));
  const names = model.graph.outputs.map((o) => o.name).filter((n) => results.has(n));
  const widthOf = (n: string) => results.get(n)!.data.length / rows;
  const allFloats = names.filter((n) => {
    const d = results.get(n)!.data;
    return d instanceof Float32Array || d instanceof Float64Array;
  });
  if (options.scores !== undefined && !allFloats.includes(options.scores)) {
    throw refuse(`--scores ${options.scores} is no output of scores (there are ${allFloats.join(', ') || 'none'})`);
  }
  const floats = options.scores === undefined ? allFloats : [options.scores];
  const labels = names.filter((n) => {
    const d = results.get(n)!.data;
    return (Array.isArray(d) || d instanceof BigInt64Array || d instanceof Int32Array) && widthOf(n) === 1;
  });
  if (floats.length === 0)
    throw refuse('no output carries a score: the model answers with a label only; export predict_proba');
  const label = labels[0] === undefined ? {} : { label: labels[0] };
  for (const z of zips.keys()) findings.info(`ZipMap is taken out of the graph: ${z} is served as a tensor.`);
  const classes = classesOf(model.graph);
  const two = classes === null ? fromOutcomes(options.outcomes, 1) : null;
  const share = floats.filter((n) => widthOf(n) === 1 && isShare(results.get(n)!));
  // One score in 0…1 for an outcome of two values: the probability of one of them, as neural networks are exported.
  const lone = two !== null && share.length === 1 ? share[0]! : undefined;
  const wide =
    floats.find((n) => zips.has(n)) ??
    floats.find((n) => widthOf(n) > 1 && addsToOne(results.get(n)!, widthOf(n))) ??
    (lone === undefined ? floats.find((n) => widthOf(n) > 1) : undefined);
  const oneEach =
    classes !== null && floats.length === classes.length && floats.length > 1 && floats.every((n) => widthOf(n) === 1);
  const classifier = options.task
    ? options.task === 'binary' || options.task === 'multiclass'
    : wide !== undefined ||
      oneEach ||
      (classes !== null && labels.length > 0) ||
      lone !== undefined ||
      (two !== null && options.output !== undefined);
  if (!classifier) {
    const task = options.task ?? (labels.length > 0 ? 'score' : 'regression');
    if (floats.length > 1)
      throw refuse(`the model has ${floats.length} outputs (${floats.join(', ')}): say which is served with --scores`);
    if (options.task === undefined && two !== null && labels.length === 0 && isLogit(results.get(floats[0]!)!)) {
      throw refuse(
        `the outcome ${options.outcome} has two values (${two.join(', ')}), but ${floats[0]} goes beyond 0…1 and cannot be a probability: --output log_odds if it is what the sigmoid would be taken of, --task score or --task regression to serve it as it is`,
      );
    }
    const value = floats[0]!;
    if (options.task === undefined && options.outcome === null && share.includes(value)) {
      findings.warn(
        `output ${value} lies in 0…1 and is served as a value because no outcome column is named: if it is a probability, say --outcome, or --task binary`,
      );
    }
    if (widthOf(value) !== 1) throw refuse(`output ${value} has ${widthOf(value)} values a row; one is served`);
    findings.info(`Output ${value} is a ${task === 'score' ? 'score without a known scale' : 'value'}.`);
    return { task, onnx: { ...onnx, ...label, value }, output: { kind: 'value' } };
  }
  if (wide === undefined && !oneEach && lone === undefined && floats.length > 1)
    throw refuse(`the model has ${floats.length} outputs (${floats.join(', ')}): say which is served with --scores`);
  const probabilities = wide ?? (oneEach ? floats : (lone ?? floats[0]!));
  if (lone !== undefined && options.task === undefined && classes === null && wide === undefined) {
    findings.assumed(
      `output ${lone} lies in 0…1 and the outcome has two values: it is taken as a probability (--task regression to serve it as a value)`,
    );
  }
  const width = Array.isArray(probabilities) ? probabilities.length : widthOf(probabilities);
  const bare = options.outcome === null && options.task === 'binary' && width <= 2 ? [0, 1] : null;
  const known = classes ?? fromOutcomes(options.outcomes, width) ?? bare;
  if (!known) {
    throw refuse(
      `the graph does not say which classes the ${width} score${width === 1 ? '' : 's'} of ${probabilities} belong to, and ${options.outcome === null ? 'no outcome column is named (--outcome)' : `the outcome ${options.outcome} has not as many values`}${allFloats.length > 1 ? `; is another output wanted (--scores, there are ${allFloats.join(', ')})?` : ''}`,
    );
  }
  if (width !== 1 && known.length !== width)
    throw refuse(`the model answers with ${width} scores for ${known.length} classes`);
  if (known === bare)
    findings.assumed('neither the graph nor a column names the classes; they are taken to be 0 and 1');
  else if (!classes)
    findings.assumed(`the graph names no classes; those of the outcome column are taken in order: ${known.join(', ')}`);
  const task = known.length === 2 ? 'binary' : 'multiclass';
  const served: OutputPart = {
    task,
    onnx: { ...onnx, probabilities, ...label },
    classes: [...known],
    output: { kind: options.output ?? 'probability' },
  };
  if (task === 'multiclass') {
    if (options.output === 'log_odds')
      throw refuse('scores of several classes are served as probabilities only: export with raw_scores off');
    findings.info(
      `${Array.isArray(probabilities) ? probabilities.join(', ') : probabilities} carries probabilities of ${known.length} classes: ${known.join(', ')}.`,
    );
    return served;
  }
  served.positive_class = positiveOf(known, options, findings);
  return served;
}

function fromOutcomes(outcomes: readonly string[], width: number): ClassLabel[] | null {
  const sorted = [...outcomes].sort();
  if (sorted.length !== Math.max(2, width)) return null;
  // pandas writes 0.0 and 1.0 where a column once held NaN.
  return sorted.every((v) => /^-?\d+(\.0*)?$/.test(v)) ? sorted.map(Number).sort((a, b) => a - b) : sorted;
}

const isShare = ({ data }: OutputTensor): boolean =>
  (data as Float32Array).every((v: number) => Number.isNaN(v) || (v >= 0 && v <= 1));

/** Log-odds stay below this; scorecard points do not. */
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

const GOOD = [
  'good',
  'ok',
  'true',
  'yes',
  'y',
  'paid',
  'repaid',
  'approve',
  'approved',
  'accept',
  'accepted',
  'positive',
  'performing',
  'fully paid',
  'fully_paid',
  'current',
];
const BAD = [
  'bad',
  'false',
  'no',
  'n',
  'default',
  'defaulted',
  'reject',
  'rejected',
  'negative',
  'not_ok',
  'charged_off',
  'charged off',
  'late',
  'overdue',
  'fraud',
];
/** Names of outcome columns in which 1 is the bad outcome. */
const BAD_OUTCOME =
  /(^|[\W_])(is_?)?(bad|defaults?|defaulted|fraud|arrears|delinq\w*|charged?_?off|write_?off|npl|overdue|dpd\d*)(_?flag|_?ind)?($|[\W_])/i;

function positiveOf(classes: readonly ClassLabel[], options: OutputOptions, findings: Findings): ClassLabel {
  if (options.positiveClass !== undefined) {
    const found = classes.find((c) => String(c) === options.positiveClass);
    if (found === undefined) throw refuse(`--positive-class ${options.positiveClass} is none of ${classes.join(', ')}`);
    findings.info(`The probability is that of class ${found}.`);
    return found;
  }
  const outcome = options.outcome ?? 'the outcome';
  const one = classes.find((c) => String(c) === '1');
  if (one !== undefined && classes.some((c) => String(c) === '0' || String(c) === '-1')) {
    if (BAD_OUTCOME.test(outcome)) {
      const other = classes.find((c) => c !== one);
      throw refuse(
        `1 of ${outcome} looks like the bad outcome. Decisions and reasons take a high probability as good, so say what is wanted: --positive-class ${other} serves the probability that it does not happen, --positive-class ${one} that it does`,
      );
    }
    findings.info(`The probability is that of class 1 of ${outcome}.`);
    return one;
  }
  const words = classes.map((c) => String(c).toLowerCase());
  const good = words.findIndex((w) => GOOD.includes(w) || w === options.outcome?.toLowerCase());
  const bad = words.findIndex((w) => BAD.includes(w));
  const pick = good >= 0 ? good : bad >= 0 ? 1 - bad : -1;
  if (pick < 0 || (good >= 0 && good === bad)) {
    throw refuse(`which of ${classes.join(' and ')} is the class whose probability is wanted? Say --positive-class`);
  }
  findings.assumed(`the probability is that of class ${classes[pick]} (--positive-class to change that)`);
  return classes[pick]!;
}
