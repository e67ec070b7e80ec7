// Scores sample rows through a probe exactly as a worker would: with the same encoding rules, row groups and
// interpretation.
import type { Manifest } from '../../model/package/manifest.ts';
import { scoreOutputs } from '../../model/package/model-package.ts';
import type { EncodedRows } from '../encode/encode-rows.ts';
import { type EncodedInput, type InputArray, paddedRows } from '../encode/encoder.ts';
import type { Evaluator, Scores } from '../evaluate/evaluator.ts';
import { scoresOf } from '../evaluate/onnxruntime.ts';
import type { OutputTensor } from '../evaluate/session.ts';
import type { Probe } from './probe.ts';

/** Scores all rows in the same groups as a worker; one by one if the graph accepts only one row. */
export async function scoreRows(
  probe: Pick<Probe, 'opened' | 'run'>,
  manifest: Manifest,
  encoded: EncodedRows,
): Promise<Scores> {
  const { inputs, rows } = encoded;
  const outputs = scoreOutputs(manifest);
  const single = probe.opened.inputs.some((i) => i.single);
  const ranges = single
    ? Array.from({ length: rows }, (_, r) => [r, r + 1] as const)
    : blocks(paddedRows(rows), 1024).map(([from, to]) => [from, to] as const);
  const results = await probe.run(inputs, ranges, outputs);
  return join(results, ranges, manifest, rows);
}

/** Uses a probe as an evaluator, for explainers that evaluate the model. */
export const probeEvaluator = (probe: Probe, manifest: Manifest): Evaluator => ({
  name: 'onnxruntime',
  score: (inputs, rows) => scoreRows(probe, manifest, { inputs, rows, rejected: new Map() }),
  close: async () => probe.close(),
});

function join(
  results: readonly OutputTensor[][],
  ranges: readonly (readonly [number, number])[],
  manifest: Manifest,
  rows: number,
): Scores {
  const classes = manifest.classes?.length ?? 1;
  const parts = results.map((tensors, i) => scoresOf(tensors, ranges[i]![1] - ranges[i]![0], classes));
  const width = parts[0]?.width ?? classes;
  const double = parts.some((p) => p.values instanceof Float64Array);
  const values = double ? new Float64Array(rows * width) : new Float32Array(rows * width);
  let at = 0;
  for (const p of parts) {
    values.set(p.values.subarray(0, Math.max(0, values.length - at)), at);
    at += p.values.length;
  }
  return { values, width };
}

const blocks = (n: number, size: number): [number, number][] =>
  Array.from({ length: Math.ceil(n / size) }, (_, i) => [i * size, Math.min(n, (i + 1) * size)]);

export interface BatchInvariance {
  sizes: number[];
  rows: number;
  /**
   * For each batch size: number of rows whose bits differ from those in the largest batch. Rows are evaluated in whole
   * groups, as Sluice does.
   */
  different: Record<string, number>;
  /** As `different`, but without whole groups. */
  differentBare: Record<string, number>;
  /** Largest difference between two scores of a row. */
  largest: number;
  /** Whether the graph accepts only one row at a time. Then there is nothing to compare. */
  single: boolean;
}

const SIZES = [1, 2, 17, 64, 1024];

/** Scores the same rows in batches of 1, 2, 17, 64 and 1,024 rows and compares the bits. */
export async function checkBatchInvariance(
  probe: Probe,
  manifest: Manifest,
  encoded: EncodedRows,
): Promise<BatchInvariance> {
  const single = probe.opened.inputs.some((i) => i.single);
  const rows = 1024;
  const different: Record<string, number> = {};
  const differentBare: Record<string, number> = {};
  let largest = 0;
  if (!single) {
    const inputs = repeated(encoded, rows);
    const outputs = scoreOutputs(manifest);
    const scored = async (source: readonly EncodedInput[], ranges: (readonly [number, number])[], take: number[]) => {
      const classes = manifest.classes?.length ?? 1;
      const results = await probe.run(source, ranges, outputs);
      return results.map((t, i) => {
        const s = scoresOf(t, ranges[i]![1] - ranges[i]![0], classes);
        return s.values.subarray(0, take[i]! * s.width);
      });
    };
    const [reference] = await scored(inputs, [[0, rows]], [rows]);
    const width = reference!.length / rows;
    for (const size of SIZES) {
      // Small batches need many calls, so only the first rows are compared.
      const upTo = Math.min(rows, size * 128);
      const chunks = blocks(upTo, size);
      const take = chunks.map(([from, to]) => to - from);
      const compare = (parts: readonly (Float32Array | Float64Array)[]): number => {
        let changed = 0;
        parts.forEach((p, i) => {
          for (let r = 0; r < take[i]!; r++) {
            let same = true;
            for (let c = 0; c < width; c++) {
              const [a, b] = [p[r * width + c]!, reference![(chunks[i]![0] + r) * width + c]!];
              if (Object.is(a, b)) continue;
              same = false;
              largest = Math.max(largest, Math.abs(a - b));
            }
            if (!same) changed++;
          }
        });
        return changed;
      };
      differentBare[size] = compare(await scored(inputs, chunks, take));
      const padded = chunks.map(([from, to]) => [from, paddedRows(to - from)] as const);
      const { data, ranges } = gather(
        inputs,
        chunks,
        padded.map(([, n]) => n),
      );
      different[size] = compare(await scored(data, ranges, take));
    }
  }
  return { sizes: SIZES, rows, different, differentBare, largest, single };
}

/** Repeats the rows of a sample until there are `rows` rows. */
function repeated(encoded: EncodedRows, rows: number): EncodedInput[] {
  return gather(
    encoded.inputs,
    Array.from({ length: rows }, (_, i) => [i % encoded.rows, (i % encoded.rows) + 1]),
    [],
  ).data;
}

/** Selects rows of encoded inputs, and pads them to the whole groups that evaluators need. */
export function takeRows(inputs: readonly EncodedInput[], rows: readonly number[]): readonly EncodedInput[] {
  const padded = [...rows, ...new Array<number>(paddedRows(rows.length) - rows.length).fill(rows[0] ?? 0)];
  return gather(
    inputs,
    padded.map((r) => [r, r + 1]),
    [],
  ).data;
}

/** Concatenates ranges of rows. Each range is padded to `sizes[i]` rows with copies of its first row. */
function gather(
  inputs: readonly EncodedInput[],
  ranges: readonly (readonly [number, number])[],
  sizes: readonly number[],
): { data: EncodedInput[]; ranges: (readonly [number, number])[] } {
  const rowsOf: number[] = [];
  const out: (readonly [number, number])[] = [];
  ranges.forEach(([from, to], i) => {
    const start = rowsOf.length;
    for (let r = from; r < to; r++) rowsOf.push(r);
    while (rowsOf.length - start < (sizes[i] ?? 0)) rowsOf.push(from);
    out.push([start, rowsOf.length]);
  });
  const data = inputs.map((input): EncodedInput => {
    const { width } = input;
    const source = input.data;
    let copy: InputArray;
    if (Array.isArray(source)) copy = rowsOf.flatMap((r) => source.slice(r * width, (r + 1) * width));
    else {
      const Kind = source.constructor as new (n: number) => Exclude<InputArray, string[]>;
      copy = new Kind(rowsOf.length * width);
      for (const [i, r] of rowsOf.entries()) {
        (copy as Float32Array).set(source.subarray(r * width, (r + 1) * width) as Float32Array, i * width);
      }
    }
    return { ...input, data: copy };
  });
  return { data, ranges: out };
}
