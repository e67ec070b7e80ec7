// One row of an output scored again, with the package that its manifest names: the bits have to be those that were written.

import type { Pipeline } from '../config/pipeline-schema.ts';
import { SluiceError } from '../core/errors.ts';
import { isColumnar } from '../core/file-format.ts';
import { WorkerPool } from '../engine/worker-pool.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { fieldAt } from '../proof/name-rows.ts';
import type { Predicate } from '../proof/statement.ts';
import { RunAccount } from './account.ts';
import { openSource } from './endpoints.ts';
import { findRow } from './explain-row.ts';
import { runOnce } from './run-once.ts';
import { scoringOf } from './spec.ts';
import { besideStored } from './stored.ts';
import { inputEnd, outputEnd } from './verify-output.ts';

export interface ReplayOptions {
  output: string;
  predicate: Predicate;
  model: ModelPackage;
  row: number;
  /** null: beside the output, under the name that the manifest has. */
  input: string | null;
}

export interface Replayed {
  row: number;
  same: boolean;
  /** The answer as it stands in the output, and as it is made now; both without the number of the row. */
  written: string;
  again: string;
}

/** @throws SluiceError verification_failed: another package; usage: an output whose answers are no lines; input_not_found */
export async function replayRow({ output, predicate, model, row, input }: ReplayOptions): Promise<Replayed> {
  if (model.sha256 !== predicate.model.package_sha256) {
    const named = `the manifest names the package ${predicate.model.package_sha256}`;
    throw new SluiceError('verification_failed', `${named}, and that of ${model.ref} is ${model.sha256}`);
  }
  const to = outputEnd(predicate, output);
  if (to.format === 'json' || isColumnar(to.format)) {
    throw new SluiceError('usage', `answers in ${to.format} are no lines: replay reads csv, tsv and ndjson`);
  }
  const from = inputEnd(predicate, input ?? besideStored(output, predicate.input.name));
  const source = await openSource(from);
  const record = await findRow({ source, row }).finally(() => source.close());
  const answers = await openSource(to);
  const written = await findRow({ source: answers, row }).finally(() => answers.close());
  const again = await scoredAgain(model, predicate, record, {
    input: source.input,
    output: { format: to.format, delimiter: to.delimiter },
  });
  const plain = { written: withoutRow(written, predicate, to), again: withoutRow(again, predicate, to) };
  return { row, same: plain.written === plain.again, ...plain };
}

type Ends = Pick<Parameters<typeof runOnce>[0]['source'], 'input'> &
  Pick<Parameters<typeof runOnce>[0]['sink'], 'output'>;

async function scoredAgain(model: ModelPackage, { options }: Predicate, record: Buffer, ends: Ends): Promise<Buffer> {
  const spec = options as unknown as Pick<Pipeline, 'score' | 'on_invalid'>;
  const pool = await WorkerPool.start({ model, workers: 1 }, {});
  const chunks: Uint8Array[] = [];
  const input = ends.input.format === 'delimited' ? ends.input : { ...ends.input, format: 'json' as const };
  try {
    await runOnce({
      model,
      pool,
      source: { chunks: NO_CHUNKS, whole: record, input },
      scoring: { ...scoringOf(spec, []), failOnInvalid: false },
      sink: {
        output: ends.output,
        write: async (bytes) => {
          chunks.push(Uint8Array.from(bytes));
        },
        commit: async () => {},
        abort: async () => {},
      },
      account: new RunAccount().unit(),
    });
  } finally {
    await pool.close();
  }
  return Buffer.concat(chunks);
}

const NO_CHUNKS: AsyncIterable<Uint8Array> = (async function* () {})();

/** The last line of a text that has only the header besides, without the number of the row. */
function withoutRow(
  text: Buffer,
  { options }: Predicate,
  { format, delimiter }: { format: string; delimiter: string },
): string {
  const all = text.toString().trimEnd();
  if (format === 'ndjson') return all.slice(all.lastIndexOf('\n') + 1).replace(/"row":\d+,?/, '');
  const { passthrough } = options.score as { passthrough?: readonly string[] | '*' };
  const header = all.slice(0, all.indexOf('\n'));
  const line = all.slice(all.indexOf('\n') + 1);
  const column = Array.isArray(passthrough) ? passthrough.length : header.split(delimiter).indexOf('row');
  const field = fieldAt(line, delimiter, column);
  return field ? line.slice(0, field[0]) + line.slice(field[1]) : line;
}
