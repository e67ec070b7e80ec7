// The ideal a run is held against: the same evaluator on every core with the floats ready in memory, plus reading the
// input and writing the output as plain bytes. Parsing, encoding, formatting, start and check of the model cost nothing.
//   node ideal.ts MODEL INPUT.csv OUTPUT WORKERS      (OUTPUT: what sluice wrote; its bytes are written once more)
import { closeSync, fsyncSync, openSync, readFileSync, readSync, rmSync, writeSync } from 'node:fs';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { paddedRows } from '../src/inference/encode/encoder.ts';
import { chooseEvaluator } from '../src/inference/evaluate/choose-evaluator.ts';
import { loadPackage } from '../src/model/package/load-package.ts';
import { readModelBytes } from '../src/model/package/model-package.ts';
import { matrixOf } from './matrix.ts';
import { openModel } from './models.ts';

const BATCH = 512;
const PIECE = 256 * 1024;

interface Task {
  folder: string;
  floats: SharedArrayBuffer;
  rows: number;
  width: number;
  /** Next batch that nobody has taken. */
  next: SharedArrayBuffer;
}

export interface Ideal {
  evaluator: string;
  workers: number;
  evaluateSeconds: number;
  readSeconds: number;
  writeSeconds: number;
  seconds: number;
}

if (isMainThread) {
  const [reference, input, output, workers] = process.argv.slice(2) as [string, string, string, string];
  process.stdout.write(JSON.stringify(await ideal(reference, input, output, Number(workers))));
} else await work(workerData as Task);

async function ideal(reference: string, input: string, output: string, workers: number): Promise<Ideal> {
  const model = await openModel(reference);
  const matrix = await matrixOf(model, input);
  const width = model.manifest.inputs[0]!.columns!.length;
  const rows = matrix.length / width;
  const floats = new SharedArrayBuffer(paddedRows(rows) * width * 4);
  new Float32Array(floats).set(matrix);
  const next = new SharedArrayBuffer(4);
  const task: Task = { folder: model.folder, floats, rows, width, next };
  const threads = Array.from({ length: workers }, () => new Worker(new URL(import.meta.url), { workerData: task }));
  const [evaluator] = await Promise.all(threads.map(message));
  const began = performance.now();
  for (const t of threads) t.postMessage('go');
  await Promise.all(threads.map(message));
  const evaluateSeconds = (performance.now() - began) / 1000;
  for (const t of threads) await t.terminate();
  const readSeconds = read(input);
  const writeSeconds = write(output);
  const seconds = evaluateSeconds + readSeconds + writeSeconds;
  return { evaluator: String(evaluator), workers, evaluateSeconds, readSeconds, writeSeconds, seconds };
}

function message(t: Worker): Promise<unknown> {
  return new Promise((resolve, reject) => {
    t.once('message', resolve);
    t.once('error', reject);
  });
}

async function work({ folder, floats, rows, width, next }: Task): Promise<void> {
  const model = await loadPackage(folder);
  const { evaluator } = await chooseEvaluator(await readModelBytes(model), model.manifest, 'auto');
  const matrix = new Float32Array(floats);
  const taken = new Int32Array(next);
  const { name, type } = model.manifest.inputs[0]!;
  const score = (from: number): Promise<unknown> => {
    const data = matrix.subarray(from * width, paddedRows(Math.min(rows, from + BATCH)) * width);
    return evaluator.score([{ name, type, width, data }], Math.min(BATCH, rows - from));
  };
  // Warm: what a long run costs a row, not what the first rows cost.
  for (let from = 0; from < Math.min(rows, 20_000); from += BATCH) await score(from);
  parentPort!.once('message', async () => {
    for (;;) {
      const from = Atomics.add(taken, 0, 1) * BATCH;
      if (from >= rows) break;
      await score(from);
    }
    parentPort!.postMessage('done');
  });
  parentPort!.postMessage(evaluator.name);
}

function read(file: string): number {
  const piece = Buffer.alloc(PIECE);
  const began = performance.now();
  const fd = openSync(file, 'r');
  while (readSync(fd, piece) > 0);
  closeSync(fd);
  return (performance.now() - began) / 1000;
}

/** Writes and flushes, as the output of a run is. */
function write(like: string): number {
  const bytes = readFileSync(like);
  const file = `${like}.ideal`;
  const began = performance.now();
  const fd = openSync(file, 'w');
  for (let at = 0; at < bytes.length; at += PIECE) writeSync(fd, bytes, at, Math.min(PIECE, bytes.length - at));
  fsyncSync(fd);
  closeSync(fd);
  const seconds = (performance.now() - began) / 1000;
  rmSync(file);
  return seconds;
}
