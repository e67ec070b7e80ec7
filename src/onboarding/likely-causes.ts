// Why the predictions of the training library are not reproduced: what they give away themselves, then what exporters do.
import type { Scores } from '../inference/evaluate/evaluator.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import { looksIsotonic } from '../inference/onnx/labels.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft, Expectation } from './draft.ts';
import { LINKS } from './links.ts';

type Tested = Pick<Expectation, 'expected' | 'rowOf'> & { readonly scores: Scores };

/** `known`: what was found of the rows that differ; it comes first. */
export function likelyCauses(
  { model, columns }: Draft,
  manifest: Manifest,
  tested: Tested,
  known: readonly string[],
): string {
  const causes = [...known, ...tellingPredictions(manifest, tested)];
  if (looksIsotonic(model.graph)) {
    causes.push('isotonic calibration is exported wrongly by up to 0.05: calibrate with method="sigmoid"');
  }
  const inexact = columns.filter(
    (c) => c.spec.kind === 'number' && c.input.type === 'float32' && c.profile.inexact > 0,
  );
  if (inexact.length > 0 && model.graph.nodes.some((n) => n.op.startsWith('TreeEnsemble'))) {
    causes.push(
      `the trees were trained on float64 values that float32 cannot hold (${inexact.map((c) => c.spec.name).join(', ')}), so decisions flip near thresholds: train on X.astype("float32")`,
    );
  }
  causes.push('a setting of the training library that its exporter leaves out (docs/models.md lists those known)');
  causes.push('the encoding differs from training: order of columns, codes, what missing became (--encoding)');
  causes.push('the predictions are those of another model, other rows or another class (--positive-class)');
  return `Likely causes:\n${causes.map((c) => `  - ${c}`).join('\n')}\nA larger --tolerance accepts the difference and records it.`;
}

/** What the predictions themselves give away: another class, labels in place of probabilities, a lost link, rounding. */
function tellingPredictions(manifest: Manifest, { expected, rowOf, scores }: Tested): string[] {
  if (expected.classes.length !== 1 || expected.classes[0] !== -1) return [];
  const want = rowOf.map((r) => expected.values[r]!);
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
  for (const [words, undo] of LINKS)
    if (within(undo, 1e-4)) return [`the model does not answer with what the library predicts but with ${words}`];
  const digits = known.reduce((n, i) => Math.max(n, (String(want[i]).split('.')[1] ?? '').length), 0);
  if (digits <= 5 && within((v) => v, 0.6 * 10 ** -digits))
    return [
      `the predictions are rounded to ${digits} digits: save them as they are, or say --tolerance ${10 ** -digits}`,
    ];
  return [];
}
