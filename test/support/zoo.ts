// The zoo of trained models: how each is registered, and what its own library predicts.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'csv-parse/sync';
import type { RegisterOptions } from '../../src/onboarding/draft.ts';
import { type EncodingFile, NO_ENCODING, readEncoding } from '../../src/onboarding/encoding-file.ts';

export const ZOO = path.resolve('test/zoo');

interface ZooInput {
  type: string;
  missing?: number | string | boolean;
  false?: number | string | boolean;
  true?: number | string | boolean;
}

export interface ZooModel {
  name: string;
  task: 'binary' | 'multiclass' | 'regression' | 'score';
  outcome: string | null;
  classes?: (string | number)[];
  positive_class?: string | number;
  register: { columns: string[]; encoding?: string; inputs?: Record<string, ZooInput> };
  tolerance: number;
  expect: 'served' | 'refused' | 'warned';
  effects?: { space: string; tolerance: { abs: number; rel: number } };
}

export const zooModels = (): ZooModel[] =>
  readdirSync(path.join(ZOO, 'models'))
    .sort()
    .map((name) => ({ ...JSON.parse(readFileSync(path.join(ZOO, 'models', name, 'model.json'), 'utf8')), name }));

export type Row = Record<string, string>;

export const readRows = (file: string): Row[] =>
  parse(readFileSync(path.join(ZOO, file)), { columns: true, record_delimiter: ['\r\n', '\n'] });

/** How a user who knows the training code registers the model; `bench` milliseconds of measuring. */
export async function registerOptions(m: ZooModel): Promise<RegisterOptions> {
  const header = readFileSync(path.join(ZOO, 'data/train.csv'), 'utf8').split('\n', 1)[0]!.split(',');
  return {
    modelFile: path.join(ZOO, 'models', m.name, 'model.onnx'),
    trainingFile: path.join(ZOO, 'data/train.csv'),
    id: m.name,
    version: 1,
    ignore: header.filter((h) => !m.register.columns.includes(h) && h !== m.outcome),
    ...(m.outcome === null ? {} : { outcome: m.outcome }),
    ...(m.positive_class === undefined ? {} : { positiveClass: String(m.positive_class) }),
    encoding: await encodingOf(m),
    tolerance: m.tolerance,
    benchMs: 10,
  };
}

async function encodingOf(m: ZooModel): Promise<EncodingFile> {
  if (m.register.encoding) return readEncoding(path.join(ZOO, 'models', m.name, m.register.encoding));
  const inputs = Object.entries(m.register.inputs ?? {});
  return {
    ...NO_ENCODING,
    missing: Object.fromEntries(inputs.flatMap(([c, i]) => (i.missing === undefined ? [] : [[c, i.missing]]))),
    booleans: Object.fromEntries(
      inputs.flatMap(([c, i]) =>
        i.true === undefined || i.false === undefined ? [] : [[c, [i.false, i.true] as const]],
      ),
    ),
  };
}

/** Rows as CSV with the model's columns, tab-delimited as the service takes it. */
export function toTsv(columns: readonly string[], rows: readonly Row[]): string {
  const cell = (v: string) => (/["\t\r\n]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v);
  return [columns, ...rows.map((r) => columns.map((c) => r[c]!))].map((l) => `${l.map(cell).join('\t')}\n`).join('');
}

const NUMBERS = new Set(['amount', 'term', 'income', 'monthly_payment', 'pt_income']);

/** A row with native JSON types. */
export const toNative = (columns: readonly string[], row: Row): Record<string, unknown> =>
  Object.fromEntries(
    columns.map((c) => {
      const v = row[c]!;
      if (v === '') return [c, null];
      if (NUMBERS.has(c)) return [c, Number(v)];
      return [c, v === 'true' ? true : v === 'false' ? false : v];
    }),
  );
