// Generates rows for comparing evaluators. Values are at, next to and far from every threshold; categories are known
// and unknown.
import type { Manifest } from '../../../model/package/manifest.ts';
import { type EncodedInput, type InputArray, paddedRows } from '../../encode/encoder.ts';
import type { Cell } from '../../onnx/traced-model.ts';
import { above, below } from '../../trees/float.ts';
import type { Slot } from '../../trees/slots.ts';

type Random = () => number;

/** A seeded random generator (mulberry32), so that rows are reproducible. */
function random(seed: number): Random {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Generates micro-batches. Each batch overwrites the previous batch. */
export class ComparisonRows {
  readonly inputs: readonly EncodedInput[];
  readonly rows: number;
  readonly #draws: readonly (() => void)[];

  /** `slots`: features that the model reads. `rows`: rows per batch. */
  constructor(manifest: Manifest, slots: readonly Slot[], rows: number, seed = 1) {
    const next = random(seed);
    const specs = new Map(manifest.columns.map((c) => [c.name, c]));
    this.rows = rows;
    const draws: (() => void)[] = [];
    this.inputs = manifest.inputs.map((input) => {
      const names = input.columns ?? [input.column!];
      const data = arrayOf(input.type, paddedRows(rows) * names.length);
      names.forEach((name, column) => {
        const own = slots.filter((s) => s.source.input === input.name && s.source.column === column);
        const missing = specs.get(name)?.missing;
        const nan = missing?.as === undefined || missing.as === 'nan';
        draws.push(drawer(data, column, names.length, rows, poolOf(own), nan, next));
      });
      return { name: input.name, type: input.type, width: names.length, data };
    });
    this.#draws = draws;
  }

  next(): readonly EncodedInput[] {
    for (const draw of this.#draws) draw();
    return this.inputs;
  }
}

function arrayOf(type: EncodedInput['type'], n: number): InputArray {
  if (type === 'string') return new Array<string>(n).fill('');
  if (type === 'float32') return new Float32Array(n);
  if (type === 'float64') return new Float64Array(n);
  if (type === 'int64') return new BigInt64Array(n);
  return type === 'int32' ? new Int32Array(n) : new Uint8Array(n);
}

/** Thresholds and categories of the slots of one column. */
function poolOf(slots: readonly Slot[]): Cell[] {
  return slots.flatMap((s): Cell[] => (s.kind === 'number' ? [...s.cuts] : [...s.categories.keys()]));
}

/** Creates the function that generates one column of a batch. */
function drawer(
  data: InputArray,
  column: number,
  width: number,
  rows: number,
  pool: readonly Cell[],
  nan: boolean,
  next: Random,
): () => void {
  const texts = pool.filter((v) => typeof v === 'string');
  const numbers = pool.filter((v) => typeof v === 'number' && Number.isFinite(v)) as number[];
  const pick = <T>(from: readonly T[], otherwise: T): T => from[Math.floor(next() * from.length)] ?? otherwise;
  const double = data instanceof Float64Array;
  const number = (): number => {
    const kind = next();
    const at = pick(numbers, Math.round(next() * 4));
    if (kind < 0.3) return at;
    if (kind < 0.4) return below(double ? at : Math.fround(at), double);
    if (kind < 0.5) return above(double ? at : Math.fround(at), double);
    if (kind < 0.6) return nan ? Number.NaN : 0;
    if (kind < 0.61) return (next() - 0.5) * 2e30;
    // A value outside the float32 range, which becomes infinite.
    if (kind < 0.62) return next() < 0.5 ? 1e39 : -1e39;
    if (kind < 0.75) return Math.round(at) + Math.floor(next() * 3) - 1;
    // A value between two thresholds.
    const other = pick(numbers, 1);
    return at + (other - at) * next();
  };
  const set = (value: () => number): (() => void) => {
    const out = data as Float32Array;
    return () => {
      for (let r = 0, o = column; r < rows; r++, o += width) out[o] = value();
    };
  };
  if (Array.isArray(data)) {
    return () => {
      for (let r = 0, o = column; r < rows; r++, o += width) {
        const kind = next();
        data[o] = kind < 0.1 ? `unknown ${Math.floor(next() * 9)}` : kind < 0.15 ? '' : pick(texts, '');
      }
    };
  }
  const whole = (): number => {
    const x = Math.trunc(number());
    return Math.abs(x) < 2 ** 31 ? x + 0 : 0;
  };
  if (data instanceof BigInt64Array) {
    return () => {
      for (let r = 0, o = column; r < rows; r++, o += width) {
        const x = whole();
        data[o] = BigInt(Number.isNaN(x) ? 0 : x);
      }
    };
  }
  if (data instanceof Uint8Array) return set(() => (next() < 0.5 ? 0 : 1));
  return set(data instanceof Int32Array ? whole : number);
}
