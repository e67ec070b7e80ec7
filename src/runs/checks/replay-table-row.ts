// Scores one row of a pipeline's input again and compares it with the row that the pipeline wrote to its table.

import { isQuery } from '../../connectors/connectors.ts';
import type { PostgresSink } from '../../connectors/postgres/postgres-options.ts';
import type { RowAsText } from '../../connectors/postgres/stored-row.ts';
import { SluiceError } from '../../core/errors.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import { type Endpoint, endpoint, inputsOf } from '../endpoint-specs.ts';
import { interpretationOf } from '../spec.ts';
import type { Replayed } from './replay-row.ts';
import { openInputRow, scoreRow } from './score-row.ts';

interface TableReplay {
  pipeline: Pipeline;
  model: ModelPackage;
  row: number;
  /** Path of the input; null for the file that the pipeline names. */
  input: string | null;
}

/**
 * @throws SluiceError usage: the pipeline does not read a file or query, or does not write to a table
 * @throws SluiceError verification_failed: the table has no such row | input_* | database_*
 */
export async function replayTableRow({ pipeline, model, row, input }: TableReplay): Promise<Replayed> {
  const { sink, score } = pipeline;
  if (sink.type !== 'postgres') {
    throw new SluiceError(
      'usage',
      'replaying a row of a pipeline requires a sink of type postgres; for a file sink, pass the output file instead of the pipeline',
    );
  }
  const passthrough = score.passthrough ?? [];
  if (passthrough === '*') throw new SluiceError('usage', 'passthrough: a table needs a list of columns');
  const from = await inputOf(pipeline, input);
  const source = await openInputRow(from, { row, model, score });
  const output = { format: 'csv', delimiter: ',', copy: true } as const;
  const csv = await scoreRow(model, pipeline, source, output).finally(() => source.close());
  const [{ storedRows }, { predictionLayout }] = await Promise.all([
    import('../../connectors/postgres/stored-row.ts'),
    import('../../connectors/postgres/table-layout.ts'),
  ]);
  const columns = predictionLayout(model.manifest, passthrough, interpretationOf(pipeline));
  const { stored, again } = await storedRows(sink satisfies PostgresSink, columns, { row, csv });
  if (stored.length === 0) throw new SluiceError('verification_failed', `the table ${sink.table} has no row ${row}`);
  const written = nearest(stored, again);
  return {
    row,
    same: agreement(written, again) === Object.keys(again).length,
    written: text(written),
    again: text(again),
  };
}

async function inputOf({ source }: Pipeline, named: string | null): Promise<Endpoint> {
  if (isQuery(source)) {
    if (named !== null) throw new SluiceError('usage', '--input: the source of this pipeline is a query');
    return (await inputsOf(source))[0]!;
  }
  if (source.type !== 'file') {
    throw new SluiceError('usage', `replay of a pipeline needs a source of type file or postgres, not ${source.type}`);
  }
  if (named !== null) return endpoint(named, source, 'csv');
  const inputs = await inputsOf(source);
  if (inputs.length > 1)
    throw new SluiceError('usage', `${source.path} matches ${inputs.length} files: name one with --input`);
  return inputs[0]!;
}

const agreement = (one: RowAsText, other: RowAsText): number =>
  Object.keys(other).filter((column) => one[column] === other[column]).length;

/** The stored row that agrees with the new row in most columns. Several runs may have appended the row. */
const nearest = (stored: readonly RowAsText[], again: RowAsText): RowAsText =>
  stored.reduce((best, row) => (agreement(row, again) > agreement(best, again) ? row : best));

const text = (row: RowAsText): string => JSON.stringify(row);
