// Nobody wins by being wrong: the probabilities of a sample of rows, compared between all contenders.
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { median } from './run.ts';

export const TOLERANCE = 1e-5;
const SAMPLE = 2_000;

/**
 * Probabilities of some rows spread over the file. Every line is counted, and every sampled one must carry its row number.
 * @throws Error when the output has other rows than the input
 */
export async function readSample(file: string, rows: number): Promise<Float64Array> {
  const every = Math.max(1, Math.floor(rows / SAMPLE));
  const sample = new Float64Array(Math.ceil(rows / every)).fill(Number.NaN);
  let row = 0;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    row++;
    if ((row - 1) % every !== 0 || row > rows) continue;
    const answer = JSON.parse(line) as { row: number; prediction: boolean; probability: number };
    if (answer.row !== row || typeof answer.probability !== 'number')
      throw new Error(`${file}: line ${row} is ${line}`);
    if (answer.prediction !== answer.probability > 0.5) throw new Error(`${file}: prediction of row ${row}`);
    sample[(row - 1) / every] = answer.probability;
  }
  if (row !== rows) throw new Error(`${file} has ${row} lines for ${rows} rows`);
  return sample;
}

/** Largest distance of each from the middle of all. */
export function distances(samples: ReadonlyMap<string, Float64Array>): Map<string, number> {
  const list = [...samples.values()];
  const largest = new Map<string, number>([...samples.keys()].map((name) => [name, 0]));
  for (let i = 0; i < (list[0]?.length ?? 0); i++) {
    const middle = median(list.map((s) => s[i]!));
    for (const [name, s] of samples) {
      const distance = Math.abs(s[i]! - middle);
      // NaN is the largest distance of all.
      if (!(distance <= largest.get(name)!)) largest.set(name, Number.isNaN(distance) ? Infinity : distance);
    }
  }
  return largest;
}
