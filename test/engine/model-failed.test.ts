// A row on which the model itself fails costs that row, and nothing of what was written before it.
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { fromStream } from '../../src/io/source/byte-source.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { inChunks } from '../support/blocks.ts';
import { scratch } from '../support/cli.ts';
import { manifestFor } from '../support/forest.ts';
import { buildOnnx } from '../support/onnx-build.ts';
import { modelOnly } from '../support/registries/packages.ts';
import { MemorySink, scoreFile } from '../support/score.ts';

/** Looks its input up in a list of three: any other number makes ONNX Runtime throw. */
function lookup(folder: string): ModelPackage {
  const bytes = buildOnnx({
    nodes: [
      { op: 'Cast', inputs: ['x'], outputs: ['index'], attributes: { to: { i: 7 } } },
      { op: 'Gather', inputs: ['list', 'index'], outputs: ['scores'], attributes: { axis: { i: 0 } } },
    ],
    constants: [{ name: 'list', type: 'float32', dims: [3], values: [0.25, 0.5, 0.75] }],
    inputs: [{ name: 'x', type: 'float32', shape: [null, 1] }],
    outputs: [{ name: 'scores', type: 'float32', shape: [null, 1] }],
  });
  writeFileSync(path.join(folder, 'model.onnx'), bytes);
  const manifest = manifestFor([{ name: 'x', type: 'float32', columns: ['c0'] }], 1);
  manifest.onnx.sha256 = createHash('sha256').update(bytes).digest('hex');
  return modelOnly(folder, manifest, bytes);
}

test('rows on which the model fails, in the second micro-batch and later', async () => {
  const bad = new Set([25, 26, 70]);
  const numbers = Array.from({ length: 90 }, (_, i) => (bad.has(i + 1) ? 99 : i % 3));
  const sink = new MemorySink();
  const result = await scoreFile({
    model: lookup(scratch()),
    source: fromStream(inChunks(Buffer.from(`c0\n${numbers.join('\n')}\n`), 65_536)),
    sink,
    delimiter: ',',
    output: { format: 'csv', delimiter: ',' },
    passthrough: [],
    workers: 1,
    batchRows: 16,
  });
  expect(result).toMatchObject({ rows: 90, scored: 87, rejectedByCode: { model_failed: 3 } });
  const lines = sink.text.trimEnd().split('\n').slice(1);
  expect(lines.map((l) => l.split(',').slice(0, 3))).toEqual(
    numbers.map((n, i) => [`${i + 1}`, n === 99 ? '' : `${(n + 1) / 4}`, n === 99 ? 'model_failed' : '']),
  );
});
