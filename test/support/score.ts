// Scores text in this process through the real engine and gives back what it wrote.
import path from 'node:path';
import type { ByteSink } from '../../src/io/sink/byte-sink.ts';
import { fromStream } from '../../src/io/source/byte-source.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { type ScoreFileOptions, type ScoreFileResult, scoreFile } from '../../src/runs/score-file.ts';
import { inChunks } from './blocks.ts';

export const CREDIT_DEFAULT = path.resolve('src/bundled/credit-default/1');
export const CREDIT_COLUMNS = path.resolve('test/fixtures/packages/credit-columns/1');

export class MemorySink implements ByteSink {
  readonly #chunks: Buffer[] = [];
  readonly revocable = true;
  bytesWritten = 0;
  state: 'open' | 'committed' | 'aborted' = 'open';

  async write(bytes: Uint8Array): Promise<void> {
    this.#chunks.push(Buffer.from(bytes));
    this.bytesWritten += bytes.length;
  }
  async commit(): Promise<void> {
    this.state = 'committed';
  }
  async abort(): Promise<void> {
    this.state = 'aborted';
  }
  get text(): string {
    return Buffer.concat(this.#chunks).toString();
  }
}

export interface Scored {
  result: ScoreFileResult;
  output: string;
  rejects: string;
}

export interface ScoreSetup extends Partial<Omit<ScoreFileOptions, 'model' | 'source' | 'sink' | 'openRejects'>> {
  folder?: string;
  chunk?: number;
}

/** Scores `input` as comma-separated text unless `setup` says otherwise. */
export async function scoreText(input: string | Uint8Array, setup: ScoreSetup = {}): Promise<Scored> {
  const { folder = CREDIT_DEFAULT, chunk = 65_536, ...options } = setup;
  const sink = new MemorySink();
  const rejects = new MemorySink();
  const bytes = typeof input === 'string' ? Buffer.from(input) : input;
  const result = await scoreFile({
    model: await loadPackage(folder),
    source: fromStream(inChunks(bytes, chunk)),
    sink,
    openRejects: async () => rejects,
    delimiter: ',',
    output: { format: 'csv', delimiter: ',' },
    passthrough: [],
    workers: 1,
    ...options,
  });
  return { result, output: sink.text, rejects: rejects.text };
}
