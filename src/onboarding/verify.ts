// `model verify` and the trial before a version is served: checks that the package is complete, loads, and passes its self-test.
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { parse } from 'csv-parse/sync';
import { epochMs } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { VERSION } from '../core/version.ts';
import { readFileGraph } from '../inference/boosters/read-model.ts';
import { type EncodedRows, encodeRows, sampleRow } from '../inference/encode/encode-rows.ts';
import { mismatches } from '../inference/evaluate/onnxruntime.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import { unmappedReasons } from '../inference/explain/interpretation.ts';
import type { OnnxModel } from '../inference/onnx/graph.ts';
import { looksIsotonic } from '../inference/onnx/labels.ts';
import { refusals } from '../inference/onnx/servable.ts';
import { Probe } from '../inference/sandbox/probe.ts';
import { checkBatchInvariance, scoreRows } from '../inference/sandbox/sample-scorer.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { type ModelPackage, readModelBytes, readPackageFile, scoreOutputs } from '../model/package/model-package.ts';
import { deviationOf, expectedFor, expectedIn } from './expected.ts';
import { Findings, isInvariant, plural, type Report } from './report-card.ts';

// The functions below determine values of the report card for both proposed and registered models: the origin of the
// model file, and the scoring speed.

const BENCH_ROWS = 512;
const BENCH_MS = 100;

export function describeOnnx(model: OnnxModel, bytes: Uint8Array): Report['onnx'] {
  return {
    producer: model.producer || 'unknown',
    irVersion: model.irVersion,
    opsets: Object.fromEntries([...model.opsets].map(([d, v]) => [d === '' ? 'ai.onnx' : d, v])),
    bytes: bytes.length,
  };
}

/** Scoring speed of a single thread in rows per second, measured for about `ms` milliseconds. */
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

/** Opens a model in a probe process, or in this process if it is already a probe. */
export type OpenProbe<P = Pick<Probe, 'opened' | 'run' | 'close'>> = (bytes: Uint8Array<ArrayBuffer>) => Promise<P>;

interface Opened<P> {
  bytes: Uint8Array;
  probe: P;
  encoded: EncodedRows;
  selfTest: Report['selfTest'];
}

/**
 * Scores the self-test of a package, or an example application if the package has no self-test.
 * @throws SluiceError model_invalid | model_hash_mismatch | self_test_failed
 */
export async function passSelfTest(model: ModelPackage, openProbe: OpenProbe): Promise<void> {
  const { probe, selfTest } = await open(model, openProbe);
  probe.close();
  if (selfTest && !selfTest.passed) throw failed(model, selfTest);
}

/**
 * Runs all checks of `model add` that need no training table. A failed self-test is recorded in the report instead of
 * thrown.
 */
export async function verifyPackage(model: ModelPackage): Promise<Report> {
  const { manifest } = model;
  const { bytes, probe, encoded, selfTest } = await open(model, (opened) => Probe.open(opened));
  try {
    const onnx = readFileGraph(bytes);
    const findings = new Findings();
    const batchInvariance = await checkBatchInvariance(probe, manifest, encoded);
    if (!isInvariant(batchInvariance))
      findings.warn(`scores change with the batch size by up to ${batchInvariance.largest}`);
    if (!selfTest) findings.warn('has no self-test: predictions of the training library were never compared');
    if (looksIsotonic(onnx.graph))
      findings.warn('looks isotonic-calibrated: exported isotonic calibration differs from the training library');
    warnUnmapped(manifest, findings);
    if (!manifest.baseline) findings.warn('has no baseline: drift cannot be measured');
    for (const part of [manifest.explain?.background, manifest.explain?.covers]) {
      if (part !== undefined && !(await exists(path.join(model.folder, part))))
        findings.warn(`model.yaml names ${part}, but the package does not contain it`);
    }
    return {
      model: model.ref,
      sha256: manifest.onnx.sha256,
      checked: new Date(epochMs()).toISOString(),
      sluice: VERSION,
      onnx: describeOnnx(onnx, bytes),
      task: manifest.task,
      training: null,
      selfTest,
      batchInvariance,
      speed: await measureSpeed(probe, manifest, encoded),
      interpretation: manifest.explain?.method
        ? { method: manifest.explain.method, space: manifest.explain.space ?? '', reasons: [] }
        : null,
      witness: null,
      scores: null,
      findings: findings.list,
    };
  } finally {
    probe.close();
  }
}

/** Warns about columns without a reason text, because letters to applicants would contain their technical names. */
export function warnUnmapped(manifest: Manifest, findings: Findings): void {
  const unmapped = unmappedReasons(manifest);
  if (unmapped.length === 0) return;
  findings.warn(
    `${UNMAPPED} ${unmapped.join(', ')}: letters to applicants would show the names of these columns (set reasons with --policy)`,
  );
}

/** The beginning of the warning about columns without a reason text. */
export const UNMAPPED = 'reasons have neither a text nor none for';

async function open<P extends Pick<Probe, 'opened' | 'run' | 'close'>>(
  model: ModelPackage,
  openProbe: OpenProbe<P>,
): Promise<Opened<P>> {
  const { manifest } = model;
  const bytes = await readModelBytes(model);
  const reasons = refusals(readFileGraph(bytes));
  if (reasons.length > 0) throw new SluiceError('model_invalid', `${model.ref}: ${reasons.join('; ')}`);
  const test = manifest.self_test ? await readSelfTest(model) : null;
  const probe = await openProbe(bytes);
  try {
    const problems = mismatches(probe.opened, manifest);
    if (problems.length > 0) throw new SluiceError('model_invalid', `${model.ref}: ${problems.join('; ')}`);
    const rows = test ? test.rows : [sampleRow(manifest)];
    const fields = manifest.columns.map((c, i) => (test ? test.header.indexOf(c.name) : i));
    const encoded = encodeRows(manifest, rows, fields);
    if (encoded.rejected.size === encoded.rows) {
      const [why] = [...encoded.rejected.values()];
      throw new SluiceError(
        'model_invalid',
        `${model.ref}: the sample row of the package is rejected (${why?.column ?? ''} ${why?.code ?? ''})`,
      );
    }
    const scores = await scoreRows(probe, manifest, encoded);
    const interpreter = new Interpreter(manifest);
    for (let r = 0; r < encoded.rows; r++) {
      if (test && !encoded.rejected.has(r) && interpreter.finite(scores, r) && interpreter.isInvalid(scores, r)) {
        throw new SluiceError('model_invalid', `${model.ref}: its output holds raw scores, not probabilities`);
      }
    }
    if (!test) return { bytes, probe, encoded, selfTest: null };
    const tolerance = manifest.self_test!.tolerance ?? 1e-6;
    const compared = { scores, rejected: encoded.rejected, rowOf: rows.map((_, i) => i) };
    const deviation = deviationOf(manifest, compared, test.expected, tolerance);
    const passed = deviation.beyond === 0 && deviation.rejected === 0 && deviation.rows > 0;
    return { bytes, probe, encoded, selfTest: { ...deviation, tolerance, passed, source: 'the training library' } };
  } catch (error) {
    probe.close();
    throw error;
  }
}

async function readSelfTest(model: ModelPackage) {
  const { manifest } = model;
  const { input, expected } = manifest.self_test!;
  const textOf = async (name: string): Promise<string> => (await readPackageFile(model, name)).toString();
  const unreadable = (cause: unknown): SluiceError =>
    cause instanceof SluiceError && cause.code.startsWith('model_')
      ? cause
      : new SluiceError(
          'model_invalid',
          `${model.ref}: the self-test cannot be read: ${cause instanceof Error ? cause.message : cause}`,
          { cause },
        );
  try {
    const text = await textOf(input);
    const [header, ...rows] = parse(text, {
      bom: true,
      skip_empty_lines: true,
      record_delimiter: ['\r\n', '\n', '\r'],
    }) as string[][];
    const lacking = manifest.columns.filter((c) => !header?.includes(c.name));
    if (!header || lacking.length > 0) throw new Error(`${input} lacks ${lacking.map((c) => c.name).join(', ')}`);
    const want = expectedFor(expectedIn(expected, await textOf(expected)), manifest);
    if (want.rows !== rows.length) throw new Error(`${rows.length} rows, ${want.rows} predictions`);
    return { header, rows, expected: want };
  } catch (cause) {
    throw unreadable(cause);
  }
}

const exists = async (file: string): Promise<boolean> => (await stat(file).catch(() => null)) !== null;

const failed = (model: ModelPackage, s: NonNullable<Report['selfTest']>): SluiceError =>
  new SluiceError(
    'self_test_failed',
    `${model.ref}: ${plural(s.beyond + s.rejected, 'row')} of the self-test no longer match the expected predictions (largest difference ${s.largest})`,
  );
