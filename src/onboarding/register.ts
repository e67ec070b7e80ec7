// `model add`: reads the model file and the training table, proposes a package, and runs all possible checks.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { epochMs } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { VERSION } from '../core/version.ts';
import { type Booster, boosterOf } from '../inference/boosters/booster.ts';
import { readFileGraph } from '../inference/boosters/read-model.ts';
import { looksIsotonic } from '../inference/onnx/labels.ts';
import { refusals } from '../inference/onnx/servable.ts';
import { Probe } from '../inference/sandbox/probe.ts';
import { checkBatchInvariance } from '../inference/sandbox/sample-scorer.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { computeBaseline } from './baseline.ts';
import { boosterEncoding } from './booster-encoding.ts';
import type { Draft, Proposal, RegisterOptions, Sources } from './draft.ts';
import { draftColumns } from './draft-columns.ts';
import { BACKGROUND_FILE, backgroundOf, COVERS_FILE, chooseExplanation } from './explanation.ts';
import { reportUnresolved, resolveMissing } from './missing-values.ts';
import { checkNaN, learnOutputs } from './outputs.ts';
import { toCsv } from './package-files.ts';
import { assertPolicyFits } from './policy-file.ts';
import { comparePortfolios } from './portfolio-change.ts';
import { Findings, isInvariant, plural, type Report, refusal } from './report-card.ts';
import { type ScoredSample, scoreSample } from './score-checks.ts';
import { expectationOf, runSelfTest, SELF_TEST_EXPECTED_FILE, SELF_TEST_FILE, selfTestFiles } from './self-test.ts';
import { askTrainingTable } from './training-check.ts';
import { readTrainingTable } from './training-table.ts';
import { describeOnnx, measureSpeed, UNMAPPED, warnUnmapped } from './verify.ts';

// The code below checks the model file before an evaluator loads it.

/** First bytes of files that are often given instead of a model file. */
const NO_MODEL: readonly (readonly [string, string])[] = [
  ['version https://git-lfs', 'a Git LFS pointer (git lfs pull fetches the file itself)'],
  ['PK', 'a zip archive (PyTorch, Keras or skops?)'],
  ['\x80\x03', 'a Python pickle'],
  ['\x80\x04', 'a Python pickle'],
  ['\x80\x05', 'a Python pickle'],
  ['<', 'a web page or XML (PMML?)'],
  ['CBM1', 'a binary model of CatBoost (save it with save_model(file, format="json"), see docs/exporting.md)'],
  ['binf', 'a binary model of an old XGBoost (save it as .ubj, see docs/exporting.md)'],
  ['\x89HDF', 'an HDF5 file (Keras?)'],
  ['\x1f\x8b', 'compressed'],
];

/**
 * Opens and checks the inputs of a registration. The caller must close the probe.
 * @throws SluiceError input_not_found | model_invalid | registration_refused | training_data_invalid
 */
async function openSources(options: RegisterOptions): Promise<Sources> {
  const bytes = await readFile(options.modelFile).catch((cause) => {
    throw new SluiceError('input_not_found', `${options.modelFile} cannot be opened`, { cause });
  });
  const other = NO_MODEL.find(([magic]) => bytes.subarray(0, 64).toString('latin1').startsWith(magic));
  if (other)
    throw new SluiceError('model_invalid', `${options.modelFile} is ${other[1]}, not a model file that can be served`);
  const model = readFileGraph(bytes);
  const ambiguity = boosterOf(model)?.ambiguity;
  const reasons = [...refusals(model), ...(ambiguity ? [ambiguity] : [])];
  if (reasons.length > 0) throw refusal(reasons.join('\n'));
  const booster = boosterOf(model);
  const codes = new Map(Object.entries(options.encoding?.codes ?? {}));
  // Any column may turn out to be the column of the longest list.
  const longest = Math.max(0, ...(booster?.categories ?? []).map(({ values }) => values?.length ?? 0));
  const coded = (column: string) => Math.max(longest, Object.keys(codes.get(column) ?? {}).length);
  const table = await readTrainingTable(options.trainingFile, options.delimiter, coded);
  const findings = new Findings();
  if (booster) reportBooster(booster, findings);
  const isCompared = options.expected !== undefined;
  const encoding = booster ? { encoding: boosterEncoding(booster, table, options.encoding, findings, isCompared) } : {};
  return {
    options: { ...options, ...encoding },
    bytes,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    model,
    table,
    probe: await Probe.open(bytes),
    findings,
  };
}

function reportBooster({ library, version, objective, trees, notes }: Booster, findings: Findings): void {
  findings.info(
    `The file is a model of ${`${library} ${version}`.trim()}: ${[`objective ${objective}`, plural(trees.length, 'tree'), ...notes].join(', ')}.`,
  );
}

/**
 * Upper bound of rounding differences. A larger difference means that the score of a row depends on other rows of its
 * batch.
 */
const ROUNDING = 1e-4;

/**
 * Builds a package in memory. Each step reads the draft, extends it and adds its findings:
 *
 * 1. Open the sources: check the graph, profile and sample the training table, and open a probe with the model.
 * 2. Draft the columns: their inputs, kinds, codes and encoding of missing values.
 * 3. Run the graph once to determine the score output, the classes and the positive class.
 * 4. Pass missing values. If the model returns NaN, it does not support missing values.
 * 5. If several encodings of missing values are possible, choose the encoding that reproduces the predictions.
 * 6. Score the sample and compare the scores with the outcome.
 * 7. Self-test: reproduce the predictions of the training library.
 * 8. Training-data check: another order, other codes, other missing values or other classes must not fit the outcome
 *    better.
 * 9. Batch invariance: the score of a row must not depend on other rows of its batch.
 * 10. Measure the speed and write the report card.
 * 11. Choose the method of interpretation and its background sample.
 * 12. Add the self-test and the baseline to the package.
 *
 * @throws SluiceError registration_refused (which lists every reason), registration_contradicted, model_invalid,
 * training_data_invalid, self_test_failed
 */
export async function proposePackage(options: RegisterOptions): Promise<Proposal> {
  const sources = await openSources(options);
  try {
    return await propose(sources);
  } finally {
    sources.probe.close();
  }
}

async function propose(sources: Sources): Promise<Proposal> {
  const draft = draftColumns(sources);
  await learnOutputs(draft);
  await checkNaN(draft);
  draft.test = expectationOf(draft);
  await resolveMissing(draft);
  reportUnresolved(draft);
  const scored = await scoreSample(draft);
  const { manifest, encoded } = scored;
  applyPolicy(draft, manifest);
  reportIsotonic(draft);
  const selfTest = await runSelfTest(draft, manifest);
  comparePortfolios(draft);
  const witness = await askTrainingTable(draft, manifest, selfTest);
  const batchInvariance = await checkInvariance(draft, scored);
  const report = await reportCard(draft, scored, { selfTest, witness, batchInvariance });
  const valid = draft.sample.filter((_, i) => !encoded.rejected.has(i)).map((s) => s.fields);
  const background = backgroundOf(draft, manifest, valid);
  const { explain, interpretation } = await chooseExplanation(draft, manifest, background);
  manifest.explain = explain;
  report.interpretation = interpretation;
  const { options, test, tolerance, bytes } = draft;
  if (options.strict) assertNoWarnings(draft);
  if (test) manifest.self_test = { input: SELF_TEST_FILE, expected: SELF_TEST_EXPECTED_FILE, tolerance };
  manifest.baseline = computeBaseline(draft.table, draft.columns, scored.values);
  const files = new Map<string, string | Uint8Array>([
    [manifest.onnx.file, bytes],
    [BACKGROUND_FILE, toCsv(manifest, background.rows, background.fields)],
    ...(options.covers ? [[COVERS_FILE, options.covers] as const] : []),
    ...(test ? selfTestFiles(manifest, test) : []),
  ]);
  return { manifest, report, files };
}

/** Applies the policy to the manifest. @throws SluiceError usage if the policy does not fit the model */
function applyPolicy({ options, findings }: Draft, manifest: Manifest): void {
  if (!options.policy) return;
  assertPolicyFits(options.policy, manifest);
  Object.assign(manifest, options.policy.policy);
  warnUnmapped(manifest, findings);
}

/**
 * Rejects a registration with warnings. Warnings about reason codes without a text are ignored.
 * @throws SluiceError registration_refused
 */
function assertNoWarnings({ findings }: Draft): void {
  const warnings = findings.list.filter((f) => f.level === 'warning' && !f.text.startsWith(UNMAPPED));
  if (warnings.length === 0) return;
  const lines = warnings.map((f) => `  - ${f.column === undefined ? '' : `${f.column}: `}${f.text}`);
  throw refusal(`the registration has warnings, which --strict does not allow:\n${lines.join('\n')}`);
}

function reportIsotonic({ model, findings }: Draft): void {
  if (!looksIsotonic(model.graph)) return;
  findings.warn(
    'the model looks isotonic-calibrated, and exported steps differ from the training library by up to 0.05: calibrate with method="sigmoid", or check with --expected',
  );
}

/**
 * Checks batch invariance.
 * @throws SluiceError registration_refused if scores differ between batches by more than rounding
 */
async function checkInvariance(
  { probe, options, findings }: Draft,
  { manifest, encoded }: ScoredSample,
): Promise<Report['batchInvariance']> {
  const found = await checkBatchInvariance(probe, manifest, encoded);
  if (isInvariant(found)) return found;
  const text = `scores change with the batch size by up to ${found.largest}`;
  if (found.largest > ROUNDING) {
    throw refusal(
      `${text}: the score of an application depends on other rows or on random numbers. A node mixes rows (a mean or a maximum over the batch, BatchNormalization in training mode) or draws random numbers: export the model in evaluation mode`,
    );
  }
  if (options.requireBatchInvariance) throw refusal(text);
  findings.warn(text);
  return found;
}

async function reportCard(
  draft: Draft,
  { manifest, encoded, values, outcomeRate }: ScoredSample,
  checks: Pick<Report, 'selfTest' | 'witness' | 'batchInvariance'>,
): Promise<Report> {
  const { options, model, bytes, table, probe, findings } = draft;
  return {
    model: `${options.id}:${options.version}`,
    sha256: manifest.onnx.sha256,
    checked: new Date(epochMs()).toISOString(),
    sluice: VERSION,
    onnx: describeOnnx(model, bytes),
    task: manifest.task,
    training: { file: path.basename(table.file), rows: table.rows, sha256: table.sha256 },
    ...checks,
    speed: await measureSpeed(probe, manifest, encoded, options.benchMs),
    scores: {
      mean: values.reduce((a, b) => a + b, 0) / values.length,
      min: values.reduce((a, b) => Math.min(a, b), Infinity),
      max: values.reduce((a, b) => Math.max(a, b), -Infinity),
      outcomeRate,
    },
    interpretation: null,
    findings: findings.list,
  };
}
