// Runs the graph for the first time: to see what its outputs are, and what it makes of a missing value.
import { SluiceError } from '../core/errors.ts';
import { encodeRows } from '../inference/encode/encode-rows.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import { scoreRows } from '../inference/sandbox/sample-scorer.ts';
import { type Draft, manifestOf } from './draft.ts';
import { refusal } from './findings.ts';
import { describeOutputs } from './outputs.ts';
import { missingIn } from './training-table.ts';

const FIRST_ROWS = 32;

/**
 * Runs the graph on a few rows and fills in what its outputs are. Columns whose missing values cannot be encoded yet get the
 * first choice.
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

/** Known causes of a graph that loads but does not run. */
function failureCauses(message: string): string {
  if (/feature|Gemm|MatMul|dimension|shape|TreeEnsemble/i.test(message)) {
    return 'A step hands on another number of features than the next one takes: the exporter left a part of the pipeline out (skl2onnx does so with SimpleImputer(add_indicator=True)). Check that onnxruntime runs the file in Python, and export that step in another way, such as a column of its own for "was missing".';
  }
  return 'Check that onnxruntime runs the file in Python on the same rows.';
}

/**
 * Feeds a missing value to each column that would become NaN. Where the model answers with NaN it cannot take it, and such
 * applications are rejected.
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
