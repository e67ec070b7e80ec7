// Scores a single row of any input in the same way as the whole input.

import { WorkerPool } from '../../engine/worker-pool.ts';
import { isColumnar } from '../../formats/formats.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import { RunAccount } from '../account.ts';
import type { OpenSink, OpenSource } from '../byte-ends.ts';
import type { Endpoint } from '../endpoint-specs.ts';
import { openQuerySource, openSource } from '../endpoints.ts';
import { type OneRun, runOnce } from '../run-once.ts';
import { scoringOf } from '../spec.ts';
import { findRow } from './explain-row.ts';

type Options = Pick<Pipeline, 'score' | 'on_invalid'>;

/** A single row: either already in memory or, for Parquet and Arrow, read while it is scored. */
export interface SingleRowInput {
  source: OneRun['source'];
  /** Idempotent. */
  close(): Promise<void>;
}

interface InputRow {
  /** Number of the data row, from 1. */
  row: number;
  model: ModelPackage;
  score: Pipeline['score'];
}

/** @throws SluiceError input_not_found: the input has fewer rows | database_* | usage */
export async function openInputRow(from: Endpoint, { row, model, score }: InputRow): Promise<SingleRowInput> {
  if (isColumnar(from.format)) {
    const { chunks, input, close } = await openSource({ ...from, onlyRow: row });
    return { source: { chunks, input }, close };
  }
  const source = await openRows(from, model, score);
  const whole = await findRow({ source, row }).finally(() => source.close());
  // The row is a JSON object, which is read as an array with one element.
  const input = source.input.format === 'delimited' ? source.input : { ...source.input, format: 'json' as const };
  return { source: { chunks: NO_CHUNKS, whole, input }, close: async () => {} };
}

const openRows = (from: Endpoint, { manifest }: ModelPackage, score: Pipeline['score']): Promise<OpenSource> =>
  from.query ? openQuerySource(from.query, { manifest, passthrough: score.passthrough ?? [] }) : openSource(from);

const NO_CHUNKS: AsyncIterable<Uint8Array> = (async function* () {})();

/** Scores the row into a sink and commits the sink. An invalid row is written as an error. */
export async function scoreRowInto(
  model: ModelPackage,
  options: Options,
  { source }: SingleRowInput,
  sink: Pick<OpenSink, 'output' | 'write' | 'commit' | 'abort'>,
): Promise<void> {
  const pool = await WorkerPool.start({ model, workers: 1 }, {});
  try {
    const scoring = { ...scoringOf(options, []), failOnInvalid: false };
    await runOnce({ model, pool, source, scoring, sink, account: new RunAccount().unit() });
  } finally {
    await pool.close();
  }
}

/** Scores the row into bytes of a text format, including the header. */
export async function scoreRow(
  model: ModelPackage,
  options: Options,
  row: SingleRowInput,
  output: OpenSink['output'],
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  const nothing = async () => {};
  const write = async (bytes: Uint8Array) => {
    chunks.push(Uint8Array.from(bytes));
  };
  await scoreRowInto(model, options, row, { output, write, commit: nothing, abort: nothing });
  return Buffer.concat(chunks);
}
