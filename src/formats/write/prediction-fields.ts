// The fields of a prediction, from which JSON keys, the columns of CSV and columnar files, and the fields of record schemas are derived.
import { type ColumnData, MISSING, UNSEEN } from '../../core/batch.ts';
import { SluiceError } from '../../core/errors.ts';
import { ownValue } from '../../core/own-keys.ts';
import { Interpreter } from '../../inference/evaluate/prediction.ts';
import { FAILED, INEXACT, pairsTold } from '../../inference/explain/explainer.ts';
import type { BatchInterpretation, InterpretationSpec } from '../../inference/explain/interpretation.ts';
import { categoriesOf } from '../../model/package/category-files.ts';
import type { ColumnSpec, Manifest } from '../../model/package/manifest.ts';

/**
 * A JSON token as text. A string loses its quotes; every other token stays as written, so that numbers keep all digits.
 * null: the row has no value.
 */
export function textOfToken(token: string | null): string | null {
  if (token === null || token === 'null') return null;
  if (!token.startsWith('"')) return token;
  return token.includes('\\') ? (JSON.parse(token) as string) : token.slice(1, -1);
}

// Interpretations have the same fields in all formats. Values are those of the input; effects are sorted by size.

const INEXACT_FAULT = {
  code: 'interpretation_inexact',
  message: 'base and effects do not add up to the prediction',
};
const FAILED_FAULT = {
  code: 'interpretation_failed',
  message: 'computing the interpretation failed or took too long',
};

/**
 * The error of a scored row that lacks the requested interpretation, by the row's index `at`. null: the row has an
 * interpretation, or none was requested.
 */
export const interpretationFault = (at: number): { code: string; message: string } | null =>
  at === INEXACT ? INEXACT_FAULT : at === FAILED ? FAILED_FAULT : null;

/** The value of row `r` as a native type; null: missing. */
export function applicationValue(spec: ColumnSpec, data: ColumnData, r: number): string | number | boolean | null {
  if (data.kind === 'number') {
    const v = data.numbers[r]!;
    return Number.isNaN(v) ? null : v;
  }
  if (data.kind === 'text') return data.texts[r] ?? null;
  const code = data.codes[r]!;
  if (code === MISSING) return null;
  if (data.kind === 'boolean') return code === 1;
  if (code === UNSEEN) return data.texts[r] ?? null;
  return categoriesOf(spec)?.values[code] ?? null;
}

/**
 * Column indexes by the absolute size of their effect, largest first; ties in package order. `from`: index of the first
 * effect of the row and output.
 */
export function bySize(interpretation: BatchInterpretation, from: number, columns: number): number[] {
  const { effects, spec } = interpretation;
  const order = Array.from({ length: columns }, (_, c) => c);
  order.sort((a, b) => Math.abs(effects[from + b]!) - Math.abs(effects[from + a]!) || a - b);
  return spec.top === null ? order : order.slice(0, spec.top);
}

/** A prediction as parsed by JSON.parse. */
export type PredictionJson = Readonly<Record<string, unknown>>;

interface PredictionField {
  /** Key in JSON. */
  key: string;
  /** `json`: a nested value, which tables contain as JSON text. */
  kind: 'integer' | 'number' | 'text' | 'class' | 'numbers' | 'error' | 'json';
  description: string;
}

/**
 * The keys of a prediction in JSON. A prediction that is an independent record (of a topic) has modelId and
 * modelVersion instead of row.
 */
export const PREDICTION_FIELDS: readonly PredictionField[] = [
  { key: 'row', kind: 'integer', description: 'data row, from 1' },
  { key: 'prediction', kind: 'class', description: 'true or false, or the class' },
  { key: 'probability', kind: 'number', description: 'of the positive class, or of the class predicted' },
  { key: 'probabilities', kind: 'numbers', description: 'of each class' },
  { key: 'value', kind: 'number', description: 'of a regression or score' },
  { key: 'points', kind: 'integer', description: 'of the scorecard' },
  { key: 'decision', kind: 'text', description: 'of the policy' },
  { key: 'interpretation', kind: 'json', description: 'effects and reasons' },
  { key: 'error', kind: 'error', description: 'why there is no prediction' },
];

/** Reserved names: a passthrough column with such a name would hide a field of the prediction. */
export const ANSWER_KEYS: readonly string[] = PREDICTION_FIELDS.map((f) => f.key);

export interface PredictionColumn {
  name: string;
  kind: 'integer' | 'number' | 'text' | 'boolean';
  /** All possible texts, each once. undefined: the texts are not known in advance. */
  words?: readonly string[];
  /** The value of the column in the JSON of a prediction; undefined or null: the prediction has no value for it. */
  of(prediction: PredictionJson): unknown;
}

const member = (of: unknown, key: string): unknown => (of as Record<string, unknown> | null | undefined)?.[key];
const key = (name: string, kind: PredictionColumn['kind']): PredictionColumn => ({ name, kind, of: (p) => p[name] });
/** A JSON value as the text of a table cell. Nested values become JSON text. null: the cell is empty. */
function textOf(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const wordsOf = (values: readonly unknown[]): string[] => [...new Set(values.map(String))];

const ROW_COLUMN = key('row', 'integer');

/** The prediction columns, which are between `row` and the error columns. */
export function answerColumns(i: Interpreter): PredictionColumn[] {
  if (i.task === 'regression' || i.task === 'score') return [key('value', 'number')];
  return [
    i.task === 'binary'
      ? key('prediction', 'boolean')
      : { name: 'prediction', kind: 'text', words: wordsOf(i.classes), of: (p) => textOf(p.prediction) },
    key('probability', 'number'),
    ...(i.task === 'multiclass' ? i.classes : []).map(
      (c): PredictionColumn => ({
        name: `probability.${c}`,
        kind: 'number',
        of: (p) => member(p.probabilities, String(c)),
      }),
    ),
    ...(i.hasPoints ? [key('points', 'integer')] : []),
    ...(i.hasDecisions ? [{ ...key('decision', 'text'), words: wordsOf(i.decisions) }] : []),
  ];
}

/** `answerColumns` for a package. */
export const answerColumnsOf = (manifest: Manifest): PredictionColumn[] => answerColumns(new Interpreter(manifest));

/** Columns with the reason why a row has no prediction, or a prediction lacks the requested interpretation. */
export const ERROR_COLUMNS: readonly PredictionColumn[] = ['code', 'column', 'message'].map((part) => ({
  name: `error_${part}`,
  kind: 'text',
  of: (p) => member(p.error, part) ?? member(member(p.interpretation, 'error'), part),
}));

/** The columns of the interpretation, which follow the error columns. */
export function interpretationColumns(
  spec: InterpretationSpec | null,
  columns: readonly Pick<ColumnSpec, 'name'>[],
): PredictionColumn[] {
  if (!spec) return [];
  const effects = (p: PredictionJson) =>
    member(p.interpretation, 'effects') as { column: string; effect: number }[] | undefined;
  const reasons = (p: PredictionJson) => member(p.interpretation, 'reasons') as { code: string }[] | undefined;
  return [
    ...(spec.effects
      ? [
          { name: 'base', kind: 'number', of: (p) => member(p.interpretation, 'base') } satisfies PredictionColumn,
          ...columns.map(
            ({ name }): PredictionColumn => ({
              name: `effect.${name}`,
              kind: 'number',
              of: (p) => effects(p)?.find((e) => e.column === name)?.effect,
            }),
          ),
        ]
      : []),
    ...(spec.reasons
      ? [
          {
            name: 'reasons',
            kind: 'text',
            of: (p) =>
              reasons(p)
                ?.map((r) => r.code)
                .join(';'),
          } satisfies PredictionColumn,
        ]
      : []),
    ...interactionColumns(spec, columns),
  ];
}

/** The columns for each interaction, by rank from 1: the names of its two input columns, and its value. */
function interactionColumns(
  { interactions }: InterpretationSpec,
  columns: readonly Pick<ColumnSpec, 'name'>[],
): PredictionColumn[] {
  const words = columns.map(({ name }) => name);
  const pairOf = (p: PredictionJson, rank: number) =>
    (member(p.interpretation, 'interactions') as { columns: [string, string]; effect: number }[] | undefined)?.[rank];
  return Array.from({ length: pairsTold(interactions, columns.length) }, (_, rank): PredictionColumn[] => {
    const name = `interaction.${rank + 1}`;
    return [
      { name: `${name}.first`, kind: 'text', words, of: (p) => pairOf(p, rank)?.columns[0] },
      { name: `${name}.second`, kind: 'text', words, of: (p) => pairOf(p, rank)?.columns[1] },
      { name: `${name}.effect`, kind: 'number', of: (p) => pairOf(p, rank)?.effect },
    ];
  }).flat();
}

/** All columns of a predictions table, after the passthrough columns. */
export const predictionColumns = (
  i: Interpreter,
  spec: InterpretationSpec | null,
  columns: readonly Pick<ColumnSpec, 'name'>[],
): PredictionColumn[] => [ROW_COLUMN, ...answerColumns(i), ...ERROR_COLUMNS, ...interpretationColumns(spec, columns)];

const VARYING =
  /^(?:prediction|probability|value|points|decision|base|reasons|(?:probability|effect)\..*|interaction\.\d+\.(?:first|second|effect))$/s;

/** Whether a column of predictions has this name, and only some models and interpretations have the column. */
export const isVaryingColumn = (name: string): boolean => VARYING.test(name);

/**
 * Rejects passthrough columns with reserved names.
 * @throws SluiceError header_mismatch if a passthrough column has the name of an output column or member, which it
 * would duplicate or hide
 */
export function refuseHidden(
  passthrough: readonly string[],
  own: readonly string[],
  called: 'column of the output' | 'member of the output' | 'column of the rejects file' = 'column of the output',
): void {
  const hidden = passthrough.find((name) => own.includes(name));
  if (hidden === undefined) return;
  const message = `passthrough: ${hidden} is also a ${called}; rename the input column or do not pass it through`;
  throw new SluiceError('header_mismatch', message);
}

/** All columns of a predictions table. It starts with the passthrough columns, which are texts. */
export function outputColumns(
  manifest: Manifest,
  passthrough: readonly string[],
  interpretation: InterpretationSpec | null,
): PredictionColumn[] {
  const echoed = passthrough.map(
    (name): PredictionColumn => ({ name, kind: 'text', of: (p) => textOf(ownValue(p, name)) }),
  );
  return [...echoed, ...predictionColumns(new Interpreter(manifest), interpretation, manifest.columns)];
}
