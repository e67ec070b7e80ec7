// What one writes first: csv-parse, onnxruntime-node, JSON.stringify; a contender, run as a process of its own.
//   node naive.ts MODEL.onnx CODES.json INPUT.csv OUTPUT.ndjson [THREADS of ONNX Runtime]
import { once } from 'node:events';
import { createReadStream, createWriteStream, readFileSync } from 'node:fs';
import { finished } from 'node:stream/promises';
import { parse } from 'csv-parse';
import * as ort from 'onnxruntime-node';

const [model, encoding, input, output, threads] = process.argv.slice(2) as [string, string, string, string, string?];
const { order, codes } = JSON.parse(readFileSync(encoding, 'utf8')) as {
  order: string[];
  codes: Record<string, Record<string, number>>;
};
const session = await ort.InferenceSession.create(model, threads ? { intraOpNumThreads: Number(threads) } : {});
const BATCH = 1000;
const out = createWriteStream(output);
let features: number[] = [];
let pending = 0;
let row = 0;

function encode(column: string, text: string): number {
  if (text === '') return Number.NaN;
  const known = codes[column];
  if (known) return known[text] ?? -1;
  return text === 'true' ? 1 : text === 'false' ? 0 : Number(text);
}

async function flush(): Promise<void> {
  const tensor = new ort.Tensor('float32', Float32Array.from(features), [pending, order.length]);
  const { probabilities } = await session.run({ [session.inputNames[0]!]: tensor });
  const p = probabilities!.data as Float32Array;
  for (let r = 0; r < pending; r++) {
    const probability = p[r * 2 + 1]!;
    const line = `${JSON.stringify({ row: ++row, prediction: probability > 0.5, probability })}\n`;
    if (!out.write(line)) await once(out, 'drain');
  }
  features = [];
  pending = 0;
}

for await (const record of createReadStream(input).pipe(parse({ columns: true }))) {
  for (const column of order) features.push(encode(column, record[column]));
  if (++pending === BATCH) await flush();
}
if (pending > 0) await flush();
out.end();
await finished(out);
