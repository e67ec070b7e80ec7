// Tables in memory as files of every format: what tests of outcomes read.

import { writeFileSync } from 'node:fs';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { type MeasureOptions, measureOutcomes } from '../../src/outcomes/measure-outcomes.ts';
import type { RowSource } from '../../src/outcomes/row-batch.ts';
import { tableRows } from '../../src/outcomes/table-rows.ts';
import { endpoint } from '../../src/runs/endpoint-specs.ts';
import { openSource } from '../../src/runs/endpoints.ts';

export type Row = Readonly<Record<string, string | number | boolean | null>>;

export const FORMATS = ['csv', 'tsv', 'ndjson', 'json', 'parquet'] as const;
export type TableFormat = (typeof FORMATS)[number];

/** Of rows that all have the columns of the first. */
export function tableText(rows: readonly Row[], format: Exclude<TableFormat, 'parquet'>): string {
  if (format === 'json') return JSON.stringify(rows);
  if (format === 'ndjson') return rows.map((row) => `${JSON.stringify(row)}\n`).join('');
  const delimiter = format === 'csv' ? ',' : '\t';
  const cell = (value: Row[string]) => {
    const text = value === null ? '' : String(value);
    return /[",\t\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const names = Object.keys(rows[0] ?? {});
  return [names, ...rows.map((row) => names.map((n) => cell(row[n]!)))].map((r) => `${r.join(delimiter)}\n`).join('');
}

export function tableBytes(rows: readonly Row[], format: TableFormat): Buffer {
  if (format !== 'parquet') return Buffer.from(tableText(rows, format));
  const columns = Object.keys(rows[0]!).map((name) => {
    const data = rows.map((row) => row[name]!);
    const one = data.find((value) => value !== null);
    const type = typeof one === 'number' ? 'DOUBLE' : typeof one === 'boolean' ? 'BOOLEAN' : 'STRING';
    return { name, data, type, nullable: true } as const;
  });
  return Buffer.from(parquetWriteBuffer({ columnData: columns }));
}

/** Writes a table; by its ending the name says format and compression. */
export function writeTable(file: string, rows: readonly Row[], format: TableFormat): string {
  const bytes = tableBytes(rows, format);
  writeFileSync(file, file.endsWith('.gz') ? gzipSync(bytes) : file.endsWith('.zst') ? zstdCompressSync(bytes) : bytes);
  return file;
}

export const fileOf = (name: string): RowSource => ({
  name,
  rows: (columns, signal) => tableRows({ name, open: () => openSource(endpoint(name, {}, 'csv')) }, columns, signal),
});

/** Text as a source, in chunks of so many bytes. */
export const textSource = (
  text: string | Buffer,
  format: 'csv' | 'ndjson' | 'json',
  name = 'text',
  chunkBytes = 1 << 16,
): RowSource => {
  const bytes = Buffer.from(text);
  const chunks = async function* () {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
  };
  const input = format === 'csv' ? { format: 'delimited' as const, delimiter: ',' } : { format };
  const open = async () => ({ chunks: chunks(), input, close: async () => {} });
  return { name, rows: (columns, signal) => tableRows({ name, open }, columns, signal) };
};

type Said = Partial<Omit<MeasureOptions['labels'], 'rows'>>;

/** With the defaults of the command: columns `id`, `ok` and `probability`, and a model that is named. */
export const measure = (
  labels: RowSource,
  sources: readonly RowSource[],
  said: {
    labels?: Said;
    predictions?: Partial<MeasureOptions['predictions']>;
    month?: MeasureOptions['month'];
    signal?: AbortSignal;
  } = {},
) =>
  measureOutcomes({
    labels: {
      ...labels,
      key: 'id',
      outcome: 'ok',
      positive: ['true', 'True', 'TRUE', '1', '1.0'],
      negative: ['false', 'False', 'FALSE', '0', '0.0'],
      onDuplicate: 'refuse',
      ...said.labels,
    },
    predictions: {
      sources,
      key: 'id',
      probability: 'probability',
      model: 'credit:3',
      modelColumn: null,
      onDuplicate: 'refuse',
      ...said.predictions,
    },
    month: said.month ?? null,
    signal: said.signal,
  });
