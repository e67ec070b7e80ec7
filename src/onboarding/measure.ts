// What a report card says of any model, proposed or registered: where the file comes from and how fast it is.

import type { EncodedRows } from '../inference/encode/encode-rows.ts';
import type { OnnxModel } from '../inference/onnx/graph.ts';
import type { Probe } from '../inference/sandbox/probe.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { scoreOutputs } from '../model/package/model-package.ts';
import type { Report } from './report.ts';

const BENCH_ROWS = 512;
const BENCH_MS = 700;

export function describeOnnx(model: OnnxModel, bytes: Uint8Array): Report['onnx'] {
  return {
    producer: model.producer || 'unknown',
    irVersion: model.irVersion,
    opsets: Object.fromEntries([...model.opsets].map(([d, v]) => [d === '' ? 'ai.onnx' : d, v])),
    bytes: bytes.length,
  };
}

/** Rows a second of one thread, measured for about `ms` milliseconds. */
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
