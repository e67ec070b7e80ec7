// Finds the rows of predictions of the training library, and checks whether the model reproduces these predictions.
// Writes the predictions to files of the package.
import { SluiceError } from '../core/errors.ts';
import { encodeRows } from '../inference/encode/encode-rows.ts';
import type { Scores } from '../inference/evaluate/evaluator.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import { scoreRows } from '../inference/sandbox/sample-scorer.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { type Draft, type Expectation, manifestOf, SCORED_ROWS } from './draft.ts';
import { deviationOf, expectedFor, rowDifference } from './expected.ts';
import { likelyCauses, reproducingSwap, sharedLevel } from './likely-causes.ts';
import { csvLine, pickRows, toCsv } from './package-files.ts';
import { type Report, refusal, selfTestText } from './report-card.ts';

export const SELF_TEST_FILE = 'selftest.csv';
export const SELF_TEST_EXPECTED_FILE = 'selftest-expected.csv';
const SELF_TEST_ROWS = 200;

/**
 * Finds the rows of the predictions: the rows that the user supplies, else the rows in the file of predictions if it
 * has the columns of the model, else the training table.
 */
export function expectationOf(draft: Draft): Expectation | null {
  const { options, table, columns } = draft;
  const file = options.expected;
  if (!file) return null;
  const expected = expectedFor(file, manifestOf(draft));
  const own = options.expectedRows ?? (columns.every((c) => file.header.includes(c.spec.name)) ? file : null);
  if (own) {
    const lacking = columns.filter((c) => !own.header.includes(c.spec.name));
    if (lacking.length > 0)
      throw refusal(`the rows of the self-test lack ${lacking.map((c) => c.spec.name).join(', ')}`);
    if (own.rows.length !== expected.rows) {
      throw refusal(`--expected-rows has ${own.rows.length} rows, but --expected has ${expected.rows} predictions`);
    }
    const every = Math.max(1, Math.ceil(own.rows.length / SCORED_ROWS));
    const rowOf = own.rows.map((_, i) => i).filter((i) => i % every === 0);
    return {
      expected,
      rows: rowOf.map((i) => own.rows[i]!),
      rowOf,
      fields: columns.map((c) => own.header.indexOf(c.spec.name)),
    };
  }
  if (expected.rows !== table.rows) {
    throw refusal(
      `${file.file} has ${expected.rows} predictions, but the training table has ${table.rows} rows: provide one prediction per row, or the rows of the predictions (--expected-rows)`,
    );
  }
  return {
    expected,
    rows: draft.sample.map((s) => s.fields),
    rowOf: draft.sample.map((s) => s.row),
    fields: draft.fields,
  };
}

/**
 * Checks whether the model reproduces the predictions.
 * @throws SluiceError self_test_failed, which names the likely causes | registration_refused
 */
export async function runSelfTest(draft: Draft, manifest: Manifest): Promise<Report['selfTest']> {
  const { test, tolerance } = draft;
  if (!test) {
    draft.findings.warn(
      'was not compared with predictions of the training library (--expected): a wrong encoding would not be noticed',
    );
    return null;
  }
  const encoded = encodeRows(manifest, test.rows, test.fields);
  if (encoded.rejected.size === encoded.rows)
    throw refusal('every row of the self-test is rejected by the encoding rules');
  const scores: Scores = await scoreRows(draft.probe, manifest, encoded);
  const compared = { scores, rejected: encoded.rejected, rowOf: test.rowOf };
  const deviation = deviationOf(manifest, compared, test.expected, tolerance);
  const passed = deviation.beyond === 0 && deviation.rows > 0;
  const result = { ...deviation, tolerance, passed, source: 'the training library' };
  if (passed) return result;
  const differenceAt = rowDifference(new Interpreter(manifest), scores, test.expected);
  const wrong = test.rowOf.map((row, i) => !encoded.rejected.has(i) && (differenceAt(i, row) ?? 0) > tolerance);
  const known = [await reproducingSwap(draft, manifest, test, wrong), sharedLevel(draft, test, wrong)];
  throw new SluiceError(
    'self_test_failed',
    `${selfTestText(result)}\n${likelyCauses(
      draft,
      manifest,
      { ...test, scores },
      known.filter((k) => k !== null),
    )}`,
  );
}

/** The files of the self-test in the package: some valid rows with their predictions. */
export function selfTestFiles(manifest: Manifest, { expected, rows, rowOf, fields }: Expectation): [string, string][] {
  const { rejected } = encodeRows(manifest, rows, fields);
  const width = expected.classes.length;
  const usable = rowOf
    .map((_, i) => i)
    .filter((i) => !rejected.has(i) && !Number.isNaN(expected.values[rowOf[i]! * width]));
  const picked = pickRows(usable, SELF_TEST_ROWS).sort((a, b) => a - b);
  const header = expected.classes.map((c) => {
    if (c >= 0) return `probability.${manifest.classes![c]}`;
    return manifest.task === 'binary' ? 'probability' : 'value';
  });
  const predictions = picked.map((i) => {
    const at = rowOf[i]! * width;
    return [...expected.values.subarray(at, at + width)].join(',');
  });
  const applications = toCsv(
    manifest,
    picked.map((i) => rows[i]!),
    fields,
  );
  return [
    [SELF_TEST_FILE, applications],
    [SELF_TEST_EXPECTED_FILE, `${[csvLine(header), ...predictions].join('\n')}\n`],
  ];
}
