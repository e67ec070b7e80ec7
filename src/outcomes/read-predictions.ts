// Reads predictions into a ledger with outcomes. A prediction is stored if the outcome for its key is known.
import { newColumns } from '../core/batch.ts';
import { SluiceError } from '../core/errors.ts';
import { plainField } from '../formats/delimited/delimited-formatter.ts';
import { ColumnReader } from '../inference/encode/column-reader.ts';
import { monthOfMs, NO_MONTH } from './calendar-month.ts';
import type { OutcomeLedger } from './outcome-ledger.ts';
import { MONTH_WORDS, type MonthColumn, monthIn, type OnDuplicate } from './read-labels.ts';
import { type RowBatch, type RowFault, RowFaults, type RowSource, type WantedColumn } from './row-batch.ts';

export interface PredictionOptions {
  /** Column with the keys; null: the record keys are used. */
  readonly key: string | null;
  /** Column with the probability of the positive class. */
  readonly probability: string;
  /** Model of all predictions: `id:version`; null: each prediction names its model. */
  readonly model: string | null;
  /** Column with the model; null: the fields and headers that Sluice writes are used. */
  readonly modelColumn: string | null;
  /** Column with the month, if the outcomes have no month; null: the outcomes have months, or no input has a month. */
  readonly month: MonthColumn | null;
  /** Whether the timestamp of a record determines the month. */
  readonly recordTimes: boolean;
  readonly onDuplicate: OnDuplicate;
  readonly signal?: AbortSignal | undefined;
}

/** rows = matched + repeated + withdrawn + unlabelled + withoutProbability + withoutKey */
export interface PredictionCounts {
  rows: number;
  /** Number of predictions with a known outcome, counted once per application and model. */
  matched: number;
  /** Number of further predictions of an application by the same model. */
  repeated: number;
  /** Number of predictions that a later record without a value withdrew. */
  withdrawn: number;
  /** Number of predictions without an outcome, or with an outcome that is not known yet. */
  unlabelled: number;
  /** Number of rejected applications and of tombstones. */
  withoutProbability: number;
  withoutKey: number;
}

/** Matches `id:version`. */
const MODEL = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}:[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export const isModelName = (name: string): boolean => MODEL.test(name);

/** The indexes of the requested columns. */
const AT = { key: 0, probability: 1, decision: 2, prediction: 3, id: 4, version: 5, model: 6, month: 7 } as const;

/**
 * Reads the predictions of one source. If there are several sources, it is called for each source with the same
 * `counts`.
 * @throws SluiceError outcomes_invalid, which names rows and columns but no values; usage if the model is unknown
 */
export async function readPredictions(
  ledger: OutcomeLedger,
  source: RowSource,
  options: PredictionOptions,
  counts: PredictionCounts,
): Promise<void> {
  const columns = columnsOf(options);
  const faults = new RowFaults();
  const repeatedBefore = counts.repeated;
  let first = true;
  for await (const batch of source.rows(columns, options.signal)) {
    if (first && batch.rows > 0) refuseUnsuited(source, batch, options);
    first = false;
    const reader = new PredictionRow(batch, options);
    for (let row = 0, next = 0; row < batch.rows; row++) {
      counts.rows++;
      const fault = batch.faults[next]?.row === row ? batch.faults[next++]! : reader.enter(row, ledger, counts);
      if (fault) faults.add(batch.placeOf(row), fault);
    }
  }
  faults.refuse(source.name);
  const repeated = counts.repeated - repeatedBefore;
  if (repeated > 0 && options.onDuplicate === 'refuse') {
    const many = repeated === 1 ? 'one row is' : `${repeated} rows are`;
    throw new SluiceError(
      'outcomes_invalid',
      `${source.name}: ${many} of an application that the same model already predicted`,
    );
  }
}

const columnsOf = ({ key, probability, modelColumn, month }: PredictionOptions): WantedColumn[] => [
  { name: key ?? '', asWritten: true, ...(key === null ? {} : { required: true }) },
  { name: probability, required: true, orError: true },
  { name: 'decision' },
  { name: 'prediction' },
  { name: 'modelId' },
  { name: 'modelVersion' },
  { name: modelColumn ?? '', ...(modelColumn === null ? {} : { required: true }) },
  { name: month?.column ?? '' },
];

/** Checks that an input contains the model and the month. @throws SluiceError usage */
function refuseUnsuited({ name }: RowSource, batch: RowBatch, options: PredictionOptions): void {
  const { model, modelColumn, month } = options;
  const said =
    model !== null ||
    modelColumn !== null ||
    batch.records !== undefined ||
    (batch.has[AT.id] && batch.has[AT.version]);
  if (!said) {
    throw new SluiceError('usage', `${name} does not name the model of its predictions: use --model or --model-column`);
  }
  if (month !== null && !batch.has[AT.month] && !batch.records) {
    throw new SluiceError('usage', `neither the labels nor ${name} have the column ${month.column}`);
  }
}

type Fault = Omit<RowFault, 'row'>;

const PROBABILITY_RANGE: [number, number] = [0, 1];

/** Reads the rows of a batch. */
class PredictionRow {
  readonly #batch: RowBatch;
  readonly #options: PredictionOptions;
  readonly #number: ColumnReader;
  readonly #cell = newColumns(['number'], 1)[0]!;

  constructor(batch: RowBatch, options: PredictionOptions) {
    this.#batch = batch;
    this.#options = options;
    this.#number = new ColumnReader({ name: options.probability, kind: 'number', range: PROBABILITY_RANGE }, []);
  }

  /** Enters a row; returns its error, or null. */
  enter(row: number, ledger: OutcomeLedger, counts: PredictionCounts): Fault | null {
    const { key: keyColumn, probability: column } = this.#options;
    const text = this.#text(AT.probability, row);
    if (text === '') {
      counts.withoutProbability++;
      if (this.#batch.records?.gone[row]) this.#withdraw(row, ledger, counts);
      return null;
    }
    const refused = this.#number.readText(text, this.#cell, 0);
    if (refused) return { code: refused.code, column, message: refused.message };
    const key = keyColumn === null ? (this.#batch.records?.keys[row] ?? '') : this.#text(AT.key, row);
    if (key === '') {
      counts.withoutKey++;
      return null;
    }
    const model = this.#model(row);
    if (!isModelName(model)) return { code: 'missing_value', column: this.#options.modelColumn, message: 'no id:version of a model' }; // biome-ignore format: one line
    const month = this.#month(row);
    if (month === null) {
      const { column: of, kind } = this.#options.month!;
      return { code: 'bad_time', column: of, message: MONTH_WORDS[kind] };
    }
    const time = this.#batch.records?.times[row] ?? 0;
    const decision = this.#text(AT.decision, row) || this.#text(AT.prediction, row) || null;
    counts[ledger.predict(plainField(key), { model, probability: this.#cell.numbers[0]!, month, decision, time })]++;
    return null;
  }

  /** Deletes the earlier predictions for a key whose application was deleted, even if the topic was not compacted yet. */
  #withdraw(row: number, ledger: OutcomeLedger, counts: PredictionCounts): void {
    const key = this.#options.key === null ? this.#batch.records!.keys[row] : null;
    if (key === null || key === undefined) return;
    const withdrawn = ledger.forget(plainField(key), this.#batch.records!.times[row]!);
    counts.matched -= withdrawn;
    counts.withdrawn += withdrawn;
  }

  #text(column: number, row: number): string {
    return this.#batch.texts[column]![row] ?? '';
  }

  #model(row: number): string {
    const { model, modelColumn } = this.#options;
    if (model !== null) return model;
    if (modelColumn !== null) return this.#text(AT.model, row);
    return this.#batch.records?.models[row] ?? `${this.#text(AT.id, row)}:${this.#text(AT.version, row)}`;
  }

  /** The month of a row; null: it is missing or invalid. */
  #month(row: number): number | null {
    const { month, recordTimes } = this.#options;
    const { records } = this.#batch;
    if (month !== null) {
      const said = monthIn(this.#text(AT.month, row), month);
      return said === NO_MONTH ? null : said;
    }
    return records && recordTimes ? monthOfMs(records.times[row]!) : NO_MONTH;
  }
}
