// Converts the answers to records of a topic into table rows, in the CSV format of COPY.
import type { ErrorCode } from '../../core/errors.ts';
import { ExactNumber, parseExact, textOf } from '../../core/exact-json.ts';
import { ownValue } from '../../core/own-keys.ts';
import {
  type PredictionColumn,
  type PredictionJson,
  predictionColumns,
} from '../../formats/write/prediction-fields.ts';
import { Interpreter } from '../../inference/evaluate/prediction.ts';
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { StoredColumn } from './table-layout.ts';

const NUL = '\0';

/** The location where a record was read. */
interface RecordPlace {
  topic: string;
  partition: number;
  offset: bigint;
}

interface RejectionReason {
  code: ErrorCode;
  column?: string;
  message: string;
}

const PLACE: StoredColumn[] = [
  { name: 'topic', kind: 'text' },
  { name: 'partition', kind: 'integer' },
  { name: 'offset', kind: 'integer' },
];

/** Columns of the table of rejected applications: the location and the original bytes of the record, and the reason. */
export const LETTER_LAYOUT: StoredColumn[] = [
  ...PLACE,
  { name: 'key', kind: null, made: 'bytea' },
  { name: 'value', kind: null, made: 'bytea' },
  { name: 'error_code', kind: 'text' },
  { name: 'error_column', kind: 'text' },
  { name: 'error_message', kind: 'text' },
];
export const LETTER_KEY = PLACE.map((c) => c.name);

export interface RecordLayout {
  readonly columns: readonly StoredColumn[];
  /**
   * The row of an answer (JSON). If a passthrough value contains a NUL character, PostgreSQL cannot store it; then the
   * name of its column is returned instead.
   */
  row(place: RecordPlace, answer: Buffer): string | { column: string };
  /** The row of a rejected application, with all passthrough values that could be read and can be stored. */
  rejectedRow(place: RecordPlace, answer: Buffer, error: RejectionReason): string;
}

/**
 * The layout of answer rows: location of the record, passthrough columns, model version, and the columns of a
 * prediction except `row`.
 */
export function recordLayout(
  manifest: Manifest,
  passthrough: readonly string[],
  interpretation: InterpretationSpec | null,
): RecordLayout {
  const fields: PredictionColumn[] = predictionColumns(
    new Interpreter(manifest),
    interpretation,
    manifest.columns,
  ).slice(1);
  const version = { modelId: manifest.id, modelVersion: String(manifest.version) };
  const columns: StoredColumn[] = [
    ...PLACE,
    ...passthrough.map((name) => ({ name, kind: null })),
    { name: 'model_id', kind: 'text' },
    { name: 'model_version', kind: 'text' },
    ...fields.map(({ name, kind }) => ({ name, kind })),
  ];
  const line = (place: RecordPlace, passed: readonly string[], prediction: PredictionJson): string => {
    const model = [cellOf(version.modelId), cellOf(version.modelVersion)];
    return `${[...placeCells(place), ...passed, ...model, ...fields.map((c) => cellOf(c.of(prediction)))].join(',')}\n`;
  };
  return {
    columns,
    row(place, answer) {
      const prediction = read(answer);
      const passed = passthrough.map((name) => cellOf(ownValue(prediction, name)));
      const bad = passed.findIndex((cell) => cell.includes(NUL));
      return bad >= 0 ? { column: passthrough[bad]! } : line(place, passed, prediction);
    },
    rejectedRow(place, answer, error) {
      const rejected = read(answer);
      const passed = passthrough
        .map((name) => cellOf(ownValue(rejected, name)))
        .map((cell) => (cell.includes(NUL) ? '' : cell));
      return line(place, passed, { error });
    },
  };
}

/** Formats a row of `LETTER_LAYOUT`. */
export function letterRow(
  place: RecordPlace,
  { key, value }: { key: Buffer | null; value: Buffer | null },
  { code, column, message }: RejectionReason,
): string {
  const bytes = (b: Buffer | null) => (b === null ? '' : `\\x${b.toString('hex')}`);
  const texts = [code, column, message].map((text) => cellOf(text?.replaceAll(NUL, '\u{fffd}')));
  return `${[...placeCells(place), bytes(key), bytes(value), ...texts].join(',')}\n`;
}

const placeCells = ({ topic, partition, offset }: RecordPlace): string[] => [
  cellOf(topic),
  String(partition),
  String(offset),
];

const read = (json: Buffer): PredictionJson => parseExact(json) as PredictionJson;

/** Formats a CSV cell: an empty cell is null. Texts are quoted, so that an empty text differs from null. */
function cellOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = textOf(value);
  const isPlain = typeof value === 'number' || typeof value === 'boolean' || value instanceof ExactNumber;
  return isPlain ? text : `"${text.replaceAll('"', '""')}"`;
}
