// The kernel of usual answers writes what the formatter writes without it, byte for byte.
import { expect, test } from 'vitest';
import { type ColumnBatch, newBatch, type Rejection } from '../../../src/core/batch.ts';
import { Random } from '../../../src/core/random.ts';
import { createFormatter } from '../../../src/formats/choose-formatter.ts';
import { PlainAnswers } from '../../../src/formats/write/answer-kernel.ts';
import { ByteWriter } from '../../../src/formats/write/byte-writer.ts';
import type { OutputFormat, OutputSpec } from '../../../src/formats/write/formatter.ts';
import { shortestFloat32 } from '../../../src/formats/write/number.ts';
import { Interpreter } from '../../../src/inference/evaluate/prediction.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';

const whole = (await loadPackage(CREDIT_DEFAULT)).manifest;
// Predictions alone.
const manifest: Manifest = structuredClone(whole);
delete manifest.scorecard;
delete manifest.decisions;
const FORMATS: OutputFormat[] = ['ndjson', 'json', 'csv', 'tsv'];

const specOf = (format: OutputFormat, more: Partial<OutputSpec> = {}): OutputSpec => ({
  format,
  delimiter: format === 'tsv' ? '\t' : ',',
  passthrough: [],
  passthroughIsJson: false,
  interpretation: null,
  ...more,
});

/** A batch in which some rows are rejected. */
function batchOf(rows: number, isRejected: (r: number) => boolean): ColumnBatch {
  const rejected = Uint8Array.from({ length: rows }, (_, r) => (isRejected(r) ? 1 : 0));
  const rejections: Rejection[] = [];
  for (let r = 0; r < rows; r++) {
    if (rejected[r] === 1) rejections.push({ index: r, code: 'bad_number', column: 'amount', message: `no "${r}"` });
  }
  return { ...newBatch([], rows), rows, rejected, rejections };
}

/** What a formatter writes of batches of probabilities of the second class. */
function written(
  spec: OutputSpec,
  kernelAfter: number,
  batches: readonly { p: Float32Array; batch: ColumnBatch }[],
  firstRow = 1,
  of: Manifest = manifest,
): string {
  const formatter = createFormatter(spec, of, kernelAfter);
  const out = new ByteWriter();
  let row = firstRow;
  for (const { p, batch } of batches) {
    const values = Float32Array.from({ length: p.length * 2 }, (_, i) => (i % 2 === 1 ? p[i >> 1]! : 1 - p[i >> 1]!));
    formatter.write(out, batch, { values, width: 2 }, row, null);
    row += batch.rows;
  }
  return out.view().toString();
}

/** Probabilities of every size, near ties and of few digits; some are not usual. */
function probabilities(n: number, random: Random): Float32Array {
  const value = new Float32Array(1);
  const bits = new Uint32Array(value.buffer);
  return Float32Array.from({ length: n }, (_, i) => {
    const u = random.uniform();
    if (i % 4 === 0) value[0] = u;
    else if (i % 4 === 1) value[0] = u ** (1 + (i % 31));
    else if (i % 4 === 2) {
      value[0] = Number((u * 10 ** -(i % 8)).toPrecision(1 + (i % 9)));
      bits[0] = Math.max(0, bits[0]! + ((i % 7) - 3));
    } else bits[0] = Math.floor(u * 0x3f80_0000);
    return value[0]!;
  });
}

test.each(FORMATS)('%s: any probability of any row', (format) => {
  const random = new Random();
  random.seed(7, 1);
  const batches = Array.from({ length: 120 }, (_, b) => {
    const rows = b % 5 === 0 ? 1 + (b % 40) : 512;
    const p = probabilities(rows, random);
    const share = b % 3 === 0 ? 0 : 0.02 * (b % 7);
    return { p, batch: batchOf(rows, () => random.uniform() < share) };
  });
  for (const firstRow of [1, 999_950, 99_999_990]) {
    const want = written(specOf(format), Infinity, batches, firstRow);
    expect(written(specOf(format), 0, batches, firstRow)).toBe(want);
    expect(written(specOf(format), 3000, batches, firstRow)).toBe(want);
  }
});

test('the edges of what is usual', () => {
  const f = Math.fround;
  const edges = [0, 1e-7, 9.9999e-7, f(1e-6), f(1.0000001e-6), 1e-5, 1e-3, 0.1, 0.3, 0.5, f(0.50000006), f(0.49999997), 0.99999994, 1, f(1.000001), -1e-6]; // biome-ignore format: one line
  for (const format of FORMATS) {
    const batches = [{ p: Float32Array.from(edges), batch: batchOf(edges.length, () => false) }];
    expect(written(specOf(format), 0, batches)).toBe(written(specOf(format), Infinity, batches));
  }
});

test('rows beyond a thousand million, batches beyond 512 rows and all rows rejected go the other way', () => {
  const random = new Random();
  random.seed(8, 1);
  const large = { p: probabilities(700, random), batch: batchOf(700, () => false) };
  const refused = { p: probabilities(20, random), batch: batchOf(20, () => true) };
  for (const format of FORMATS) {
    const batches = [large, refused];
    expect(written(specOf(format), 0, batches, 999_999_900)).toBe(
      written(specOf(format), Infinity, batches, 999_999_900),
    );
  }
});

test('answers with more parts are left to the formatter', () => {
  const random = new Random();
  random.seed(9, 1);
  const p = probabilities(300, random);
  const batch = { ...batchOf(300, (r) => r % 50 === 3), passthrough: [Array.from(p, (_, r) => `id ${r}`)] };
  const scorecard = { base_points: 600, base_odds: 50, points_to_double_odds: 20 };
  for (const format of FORMATS) {
    for (const [spec, of] of [
      [specOf(format, { passthrough: ['id'] }), manifest],
      [specOf(format), whole],
      [specOf(format), { ...manifest, scorecard }],
      [specOf(format), { ...manifest, decisions: [{ name: 'accept', min_probability: 0.7 }] }],
    ] as const) {
      const batches = [{ p, batch: spec.passthrough.length > 0 ? batch : { ...batch, passthrough: [] } }];
      expect(written(spec, 0, batches, 1, of as Manifest)).toBe(written(spec, Infinity, batches, 1, of as Manifest));
    }
  }
});

test('what is usual is written by the kernel', () => {
  const random = new Random();
  random.seed(10, 1);
  const pieces = { beforeRow: 'r', whenTrue: ' yes ', whenFalse: ' no ', end: ';' };
  const plain = PlainAnswers.of(pieces, new Interpreter(manifest), 0)!;
  const out = new ByteWriter();
  const p = Float32Array.from({ length: 6 }, () => 0.1 + 0.8 * random.uniform());
  p[4] = 1;
  const scores = { values: Float32Array.from({ length: 12 }, (_, i) => (i % 2 === 1 ? p[i >> 1]! : 0)), width: 2 };
  expect(
    plain.begin(
      batchOf(6, (r) => r === 2),
      scores,
      41,
    ),
  ).toBe(true);
  expect(plain.write(out, 0)).toBe(2);
  expect(plain.write(out, 3)).toBe(4);
  expect(plain.write(out, 5)).toBe(6);
  const row = (r: number) => `r${41 + r}${p[r]! > 0.5 ? ' yes ' : ' no '}${shortestFloat32(p[r]!)};`;
  expect(out.view().toString()).toBe([0, 1, 3, 5].map(row).join(''));
});
