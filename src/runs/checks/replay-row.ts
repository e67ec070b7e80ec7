// Scores one row of an output again, with the package that the manifest names, and compares the result with the output
// bit by bit.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isQuery } from '../../connectors/connectors.ts';
import type { End } from '../../connectors/contract/connector.ts';
import { besideStored } from '../../connectors/stored-bytes.ts';
import { SluiceError } from '../../core/errors.ts';
import { membersOf } from '../../core/exact-json.ts';
import { isColumnar } from '../../formats/formats.ts';
import { CommitSet } from '../../io/sink/commit-set.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import type { Predicate } from '../../proof/statement.ts';
import { type Endpoint, inputsOf } from '../endpoint-specs.ts';
import { openSink, openSource } from '../endpoints.ts';
import { interpretationOf } from '../spec.ts';
import { findRow } from './explain-row.ts';
import { openInputRow, type SingleRowInput, scoreRow, scoreRowInto } from './score-row.ts';
import { inputEnd, outputEnd } from './verify-output.ts';

interface ReplayOptions {
  output: string;
  predicate: Predicate;
  model: ModelPackage;
  row: number;
  /** Path of the input. Null means the name in the manifest, in the folder of the output. */
  input: string | null;
}

export interface Replayed {
  row: number;
  same: boolean;
  /** The prediction in the output, and the prediction made by the replay; both with the row number of the replayed row. */
  written: string;
  again: string;
}

type Options = Pick<Pipeline, 'score' | 'on_invalid'>;

/**
 * @throws SluiceError verification_failed: `model` is not the package in the manifest
 * @throws SluiceError usage: the output is a JSON array, whose predictions are not lines
 * @throws SluiceError input_not_found
 */
export async function replayRow({ output, predicate, model, row, input }: ReplayOptions): Promise<Replayed> {
  if (model.sha256 !== predicate.model.package_sha256) {
    const named = `the manifest names the package ${predicate.model.package_sha256}`;
    throw new SluiceError('verification_failed', `${named}, but ${model.ref} has ${model.sha256}`);
  }
  const to = outputEnd(predicate, output);
  if (to.format === 'json') {
    throw new SluiceError('usage', 'replay cannot read a json output: write csv, tsv, ndjson, parquet or arrow');
  }
  const written = await (isColumnar(to.format) ? columnarRow(to, row) : textRow(to, row));
  const options = predicate.options as unknown as Options;
  const source = await openInputRow(await inputOf(predicate, output, input), { row, model, score: options.score });
  const again = await (isColumnar(to.format)
    ? scoredIntoColumns(model, options, source, to)
    : scoreRow(model, options, source, { format: to.format, delimiter: to.delimiter })
  ).finally(() => source.close());
  // The row number is not compared: it is 1 in the replay, and merged outputs count from another start.
  const numbered = { written: withRow(written, row, predicate, to), again: withRow(again, row, predicate, to) };
  return { row, same: numbered.written === numbered.again, ...numbered };
}

/** The input that a manifest names. If the input is a query, the query is executed again. */
async function inputOf(predicate: Predicate, output: string, named: string | null): Promise<Endpoint> {
  const source = predicate.options.source as unknown as End;
  if (!isQuery(source)) return inputEnd(predicate, named ?? besideStored(output, predicate.input.name));
  if (named !== null) throw new SluiceError('usage', '--input: the input of this output is a query');
  return (await inputsOf(source))[0]!;
}

async function textRow(to: Endpoint, row: number): Promise<Buffer> {
  const answers = await openSource(to);
  return findRow({ source: answers, row }).finally(() => answers.close());
}

/** A row of Parquet or Arrow as a JSON object. */
async function columnarRow(to: Endpoint, row: number): Promise<Buffer> {
  const source = await openSource({ ...to, onlyRow: row });
  const text: Buffer[] = [];
  try {
    for await (const chunk of source.chunks) text.push(Buffer.from(chunk));
  } finally {
    await source.close();
  }
  return Buffer.concat(text);
}

/**
 * Scores the row into a file that contains only this row. Written row and replayed row thus pass through the same
 * writer and reader.
 */
async function scoredIntoColumns(
  model: ModelPackage,
  options: Options,
  source: SingleRowInput,
  to: Endpoint,
): Promise<Buffer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-replay-'));
  const set = new CommitSet();
  const file: Endpoint = { ...to, name: path.join(folder, path.basename(to.name)) };
  try {
    const sink = await openSink(file, {
      manifest: model.manifest,
      passthrough: options.score.passthrough ?? [],
      interpretation: interpretationOf(options),
      set,
    });
    await scoreRowInto(model, options, source, sink);
    await set.publish();
    return await columnarRow(file, 1);
  } finally {
    await set.abort();
    await rm(folder, { recursive: true, force: true });
  }
}

/** The only data line of a text, with its row number replaced by `row`. */
function withRow(
  text: Buffer,
  row: number,
  { options }: Predicate,
  { format, delimiter }: Pick<Endpoint, 'format' | 'delimiter'>,
): string {
  const all = text.toString().trimEnd();
  if (format === 'ndjson' || isColumnar(format)) {
    // A damaged line cannot be parsed, so it is compared as it is.
    if (!isJson(all)) return all;
    const members = membersOf(all).map(({ key, token }) => `${JSON.stringify(key)}:${key === 'row' ? row : token}`);
    return `{${members.join(',')}}`;
  }
  const { passthrough } = options.score as { passthrough?: readonly string[] | '*' };
  const header = all.slice(0, all.indexOf('\n'));
  const line = all.slice(all.indexOf('\n') + 1);
  const column = Array.isArray(passthrough) ? passthrough.length : header.split(delimiter).indexOf('row');
  const field = fieldAt(line, delimiter, column);
  return field ? line.slice(0, field[0]) + row + line.slice(field[1]) : line;
}

/**
 * Start and end of field `index` (from 0) in a delimited record; null if the record has fewer fields. Delimiters inside
 * quotes do not end a field.
 */
function fieldAt(record: string, delimiter: string, index: number): [number, number] | null {
  let quoted = false;
  let [field, from] = [0, 0];
  for (let at = 0; at < record.length; at++) {
    if (record[at] === '"') quoted = !quoted;
    if (quoted || record[at] !== delimiter) continue;
    if (field === index) return [from, at];
    field++;
    from = at + 1;
  }
  return field === index ? [from, record.length] : null;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
