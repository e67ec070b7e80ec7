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
  const numbered = comparable(written, again, (text) => withRow(text, row, to));
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

/** A record with its row number replaced, and the header before it; empty for formats without a header. */
interface NumberedRow {
  header: string;
  record: string;
}

/** The texts to compare. They include the headers if these differ: the values then belong to other columns. */
function comparable(
  written: Buffer,
  again: Buffer,
  numbered: (text: Buffer) => NumberedRow,
): Pick<Replayed, 'written' | 'again'> {
  const [one, other] = [numbered(written), numbered(again)];
  const withHeader = one.header !== other.header;
  const text = ({ header, record }: NumberedRow): string => (withHeader ? `${header}\n${record}` : record);
  return { written: text(one), again: text(other) };
}

/** The only record of a text, with its row number replaced by `row`. */
function withRow(
  text: Buffer,
  row: number,
  { format, delimiter }: Pick<Endpoint, 'format' | 'delimiter'>,
): NumberedRow {
  // Only the line end: white space before it is part of the record.
  const all = text.toString().replace(/\n$/, '');
  if (format === 'ndjson' || isColumnar(format)) {
    // A damaged line cannot be parsed, so it is compared as it is.
    if (!isJson(all)) return { header: '', record: all };
    const members = membersOf(all).map(({ key, token }) => `${JSON.stringify(key)}:${key === 'row' ? row : token}`);
    return { header: '', record: `{${members.join(',')}}` };
  }
  const end = fieldAt(all, '\n', 0)![1];
  const header = all.slice(0, end);
  const record = all.slice(end + 1);
  const field = fieldAt(record, delimiter, columnOf(header, delimiter));
  return { header, record: field ? record.slice(0, field[0]) + row + record.slice(field[1]) : record };
}

/** The index of the column with the row number; -1: the header has no such column. */
function columnOf(header: string, delimiter: string): number {
  for (let index = 0; ; index++) {
    const field = fieldAt(header, delimiter, index);
    if (!field) return -1;
    if (header.slice(...field) === 'row') return index;
  }
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
