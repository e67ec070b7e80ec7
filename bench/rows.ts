// Rows of files of which no value has a line break.
import { createReadStream, createWriteStream } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { finished } from 'node:stream/promises';
import { CACHE } from './prepare.ts';
import { folder } from './run.ts';

/** A file of the first rows of a file. */
export async function head(file: string, rows: number): Promise<string> {
  const target = path.join(folder(CACHE, 'outputs'), `first-${rows}.csv`);
  const out = createWriteStream(target);
  let n = 0;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    if (n++ > rows) break;
    out.write(`${line}\n`);
  }
  out.end();
  await finished(out);
  return target;
}

/** Rows without the header. */
export async function countLines(file: string): Promise<number> {
  let n = -1;
  for await (const line of createInterface({ input: createReadStream(file) })) if (line !== '') n++;
  return n;
}
