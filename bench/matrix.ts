// The floats a model is fed, made from a file of applications by the rules of its package; one float32 matrix.
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync, renameSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { finished } from 'node:stream/promises';
import { parse } from 'csv-parse';
import { encodeRows } from '../src/inference/encode/encode-rows.ts';
import type { ModelPackage } from '../src/model/package/model-package.ts';
import { CACHE } from './prepare.ts';
import { say } from './run.ts';

const CHUNK = 20_000;

/** Row-major, `rows` × columns. @throws Error when the model takes something else than one float matrix, or rejects a row */
export async function matrixOf(model: ModelPackage, file: string): Promise<Float32Array> {
  const { manifest } = model;
  const [input] = manifest.inputs;
  if (manifest.inputs.length !== 1 || input!.type !== 'float32') throw new Error(`${model.ref}: no float matrix`);
  const rules = createHash('sha256').update(JSON.stringify([manifest.columns, input!.columns, path.basename(file)]));
  const cached = path.join(CACHE, `floats-${rules.digest('hex').slice(0, 16)}.f32`);
  if (!existsSync(cached)) {
    say(`encoding ${path.basename(file)} for ${model.ref}`);
    const out = createWriteStream(`${cached}.partial`);
    let fields: number[] | null = null;
    let rows: string[][] = [];
    const flush = (): void => {
      const encoded = encodeRows(manifest, rows, fields!);
      if (encoded.rejected.size > 0) throw new Error(`${model.ref} rejects rows of ${file}`);
      const { data, width } = encoded.inputs[0]!;
      out.write(Buffer.copyBytesFrom(data as Float32Array, 0, rows.length * width));
      rows = [];
    };
    for await (const record of createReadStream(file).pipe(parse()) as AsyncIterable<string[]>) {
      if (fields === null) fields = manifest.columns.map((c) => record.indexOf(c.name));
      else if (rows.push(record) === CHUNK) flush();
    }
    if (rows.length > 0) flush();
    out.end();
    await finished(out);
    renameSync(`${cached}.partial`, cached);
  }
  const bytes = await readFile(cached);
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}
