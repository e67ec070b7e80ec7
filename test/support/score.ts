// Scores text in this process through the real engine and gives back what it wrote.
import path from 'node:path';
import type { RunCounts } from '../../src/engine/counts.ts';
import { rejectsHeader } from '../../src/formats/delimited/rejects.ts';
import type { InterpretationSpec } from '../../src/inference/explain/interpretation.ts';
import type { ByteSink } from '../../src/io/sink/byte-sink.ts';
import { type ByteSource, fromStream } from '../../src/io/source/byte-source.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { type OpenSink, withOutput } from '../../src/runs/byte-ends.ts';
import { InputScorer, type InputScorerOptions } from '../../src/runs/input-scorer.ts';
import type { RejectsPart } from '../../src/runs/rejects-file.ts';
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

export interface ScoreFileOptions extends InputScorerOptions {
  source: ByteSource;
  sink: ByteSink;
  /** Opens both once more; without it the input cannot be read again. */
  again?: () => Promise<{ source: ByteSource; sink: ByteSink }>;
  openRejects?: () => Promise<ByteSink>;
  delimiter: string;
  output: OpenSink['output'];
  passthrough: readonly string[] | '*';
  interpretation?: InterpretationSpec | null;
  failOnInvalid?: boolean;
  maxRecordBytes?: number;
  signal?: AbortSignal;
}

export interface ScoreFileResult extends RunCounts {
  evaluator: string;
  workers: number;
}

/** One delimited input into one output, as a run of files does it. @throws SluiceError whatever ends the run */
export async function scoreFile(options: ScoreFileOptions): Promise<ScoreFileResult> {
  const { delimiter, output, again, openRejects } = options;
  const scorer = new InputScorer(options);
  const account = new RunAccount();
  let list: ByteSink | null = null;
  const rejects: RejectsPart = {
    write: async (lines) => {
      if (!openRejects) return;
      if (!list) {
        list = await openRejects();
        await list.write(
          Buffer.from(rejectsHeader(options.passthrough === '*' ? [] : options.passthrough).replace('input,', '')),
        );
      }
      await list.write(Buffer.from(lines));
    },
    revocable: async () => true,
    bytes: () => list?.bytesWritten ?? null,
    sync: async () => {},
    keep: async () => list?.commit(),
    drop: async () => {
      await list?.abort();
      list = null;
    },
  };
  let ends: { source: ByteSource; sink: ByteSink } | null = options;
  try {
    const counts = await scorer.score({
      open: async () => {
        const { source, sink } = ends ?? (await again!());
        ends = null;
        return {
          source: {
            chunks: source.chunks,
            input: { format: 'delimited', delimiter },
            totalBytes: source.totalBytes,
            bytesRead: source.bytesRead,
            repeatable: again !== undefined && source.totalBytes !== null,
            close: source.close,
          },
          sink: withOutput(sink, output),
        };
      },
      rejects,
      scoring: {
        passthrough: options.passthrough,
        interpretation: options.interpretation ?? null,
        limits: options.maxRecordBytes === undefined ? {} : { maxRecordBytes: options.maxRecordBytes },
        failOnInvalid: options.failOnInvalid === true,
      },
      unit: () => account.unit(),
      ...(options.signal ? { signal: options.signal } : {}),
    });
    return { ...counts, evaluator: scorer.evaluator, workers: scorer.workers };
  } finally {
    await scorer.close();
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
