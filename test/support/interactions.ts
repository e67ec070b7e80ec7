// What the kernel says of pairs of columns, sorted by hand: what every door and every format is held against.

import { openInterpretations } from '../../src/engine/explaining.ts';
import { encodeRows } from '../../src/inference/encode/encode-rows.ts';
import { openOnnxRuntime } from '../../src/inference/evaluate/onnxruntime.ts';
import { Interpreter } from '../../src/inference/evaluate/prediction.ts';
import { pairCount, pairIndex } from '../../src/inference/explain/leaf-pairs.ts';
import { servable } from '../../src/inference/onnx/servable.ts';
import { readChecked } from '../../src/inference/trees/ensemble.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { readModelBytes } from '../../src/model/package/model-package.ts';

export type Pair = [first: string, second: string, effect: number];

/** All pairs that make something in each application, for the class predicted; null: it is not scored. */
export async function kernelPairs(folder: string, rows: readonly Record<string, string>[]): Promise<(Pair[] | null)[]> {
  const model = await loadPackage(folder);
  const { manifest } = model;
  const evaluator = await openOnnxRuntime(servable(readChecked(await readModelBytes(model))), manifest);
  const interpretations = await openInterpretations(model, evaluator);
  const explainer = interpretations.within({ effects: true, reasons: false, top: null, below: null });
  const interpreter = new Interpreter(manifest);
  const names = manifest.columns.map(({ name }) => name);
  const n = names.length;
  return Promise.all(
    rows.map(async (row) => {
      const cells = names.map((name) => row[name] ?? '');
      const { inputs, rejected } = encodeRows(manifest, [cells], [...names.keys()]);
      if (rejected.size > 0) return null;
      const own = inputs.map((input) => ({ ...input, data: input.data.slice() })) as typeof inputs;
      const output = explainer.outputs > 1 ? interpreter.top(await evaluator.score(own, 1), 0) : 0;
      const all = explainer.interactions!(own, [0]).subarray(output * pairCount(n), (output + 1) * pairCount(n));
      const pairs: Pair[] = [];
      for (let i = 0; i < n; i++) {
        for (let j = i + 1; j < n; j++) {
          const effect = all[pairIndex(i, j, n)]!;
          if (effect !== 0) pairs.push([names[i]!, names[j]!, effect]);
        }
      }
      return pairs.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
    }),
  );
}

interface Interpreted {
  interpretation?: { interactions?: { columns: [string, string]; effect: number }[] };
}

/** The pairs that an answer in JSON tells; null: it has no interpretation. */
export const pairsOf = ({ interpretation }: Interpreted): Pair[] | null =>
  interpretation?.interactions?.map(({ columns: [a, b], effect }): Pair => [a, b, effect]) ?? null;

/** The same of a row of a table: nothing stands behind the last pair. null: the row has none. */
export function pairsOfCells(row: Readonly<Record<string, unknown>>): Pair[] | null {
  const cell = (rank: number, part: string): string | number | null => {
    const value = row[`interaction.${rank}.${part}`];
    return value === undefined || value === '' ? null : (value as string | number | null);
  };
  const ranks = Object.keys(row).filter((name) => /^interaction\.\d+\.effect$/.test(name)).length;
  const pairs: Pair[] = [];
  for (let rank = 1; rank <= ranks; rank++) {
    const [first, second, effect] = ['first', 'second', 'effect'].map((part) => cell(rank, part));
    const there = [first, second, effect].filter((value) => value !== null).length;
    if (there !== 0 && (there !== 3 || pairs.length !== rank - 1)) throw new Error(`rank ${rank} is torn`);
    if (there === 3) pairs.push([String(first), String(second), Number(effect)]);
  }
  return row.base === null || row.base === '' || row.base === undefined ? null : pairs;
}
