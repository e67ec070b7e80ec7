// Reads outcomes into a ledger: keys, outcomes and, if present, months.
import { SluiceError } from '../core/errors.ts';
import { plainField } from '../formats/delimited/delimited-formatter.ts';
import { monthOfText, monthOfTime, NO_MONTH } from './calendar-month.ts';
import { type Outcome, type OutcomeLedger, UNKNOWN } from './outcome-ledger.ts';
import { RowFaults, type RowSource, type WantedColumn } from './row-batch.ts';

/** The column with the month of an application. */
export interface MonthColumn {
  readonly column: string;
  /** `month`: 2026-03. `time`: ISO 8601. */
  readonly kind: 'month' | 'time';
}

/** How to handle duplicate keys. */
export type OnDuplicate = 'refuse' | 'last';

export interface LabelOptions {
  /** Column with the keys; null: the record keys are used. */
  readonly key: string | null;
  /** Column with the outcomes. */
  readonly outcome: string;
  /** Texts that mean the positive class. `negative`: texts that mean the other class. */
  readonly positive: readonly string[];
  readonly negative: readonly string[];
  readonly month: MonthColumn | null;
  readonly onDuplicate: OnDuplicate;
  readonly signal?: AbortSignal | undefined;
}

interface LabelCounts {
  rows: number;
  /** Number of rows whose key occurred in an earlier row. */
  repeated: number;
  /** Whether the input has months. */
  months: boolean;
}

/** The month in a text; NO_MONTH: the text has another format. */
export const monthIn = (text: string, { kind }: MonthColumn): number =>
  kind === 'month' ? monthOfText(text) : monthOfTime(text);

const KEY = 0;
const OUTCOME = 1;
const MONTH = 2;

/**
 * Reads all outcomes of a source into the ledger.
 * @throws SluiceError outcomes_invalid (unknown outcomes, missing keys, invalid months, duplicate keys), which names
 * rows and columns but no values; any error of reading
 */
export async function readLabels(
  ledger: OutcomeLedger,
  source: RowSource,
  options: LabelOptions,
): Promise<LabelCounts> {
  const { key, outcome, month, signal } = options;
  const columns: WantedColumn[] = [
    { name: key ?? '', asWritten: true, ...(key === null ? {} : { required: true }) },
    { name: outcome, required: true },
    ...(month === null ? [] : [{ name: month.column }]),
  ];
  const words = outcomesByWord(options);
  const faults = new RowFaults();
  // Outcomes without a month, before any row has one. They are errors if a later row has one, as JSON permits.
  const undated = new RowFaults();
  const counts: LabelCounts = { rows: 0, repeated: 0, months: false };
  for await (const batch of source.rows(columns, signal)) {
    const [keys, outcomes, months] = [batch.records && key === null ? batch.records.keys : batch.texts[KEY]!, batch.texts[OUTCOME]!, batch.texts[MONTH]]; // biome-ignore format: one line
    counts.months ||= month !== null && batch.has[MONTH] === true;
    for (let row = 0, next = 0; row < batch.rows; row++) {
      counts.rows++;
      if (batch.faults[next]?.row === row) {
        faults.add(batch.placeOf(row), batch.faults[next++]!);
        continue;
      }
      // Without a value, a record has no key in a column.
      if (key !== null && batch.records?.gone[row]) continue;
      const fault = (
        column: string | null,
        code: 'missing_value' | 'bad_boolean' | 'bad_time',
        message: string,
        into = faults,
      ) => into.add(batch.placeOf(row), { code, column, message });
      const name = keys[row];
      const word = outcomes[row] ?? '';
      const came = words.get(word);
      const at = counts.months ? monthIn(months![row] ?? '', month!) : NO_MONTH;
      const lacksMonth = month !== null && at === NO_MONTH && came !== UNKNOWN;
      if (name === null || name === undefined || name === '') fault(key, 'missing_value', 'the key is missing');
      else if (came === undefined) fault(outcome, 'bad_boolean', 'not a configured outcome label');
      else if (lacksMonth && counts.months) fault(month.column, 'bad_time', MONTH_WORDS[month.kind]);
      else {
        if (lacksMonth) fault(month.column, 'bad_time', MONTH_WORDS[month.kind], undated);
        if (!ledger.label(plainField(name), came, at, batch.records?.times[row])) counts.repeated++;
      }
    }
  }
  if (counts.months) undated.append(faults);
  (counts.months ? undated : faults).refuse(source.name);
  if (counts.repeated > 0 && options.onDuplicate === 'refuse') {
    const many = counts.repeated === 1 ? 'one row has' : `${counts.repeated} rows have`;
    throw new SluiceError('outcomes_invalid', `${source.name}: ${many} a duplicate key`);
  }
  return counts;
}

/** Descriptions of invalid cells in the month column. */
export const MONTH_WORDS = { month: 'not a month such as 2026-03', time: 'not a time in ISO 8601' } as const;

/**
 * The outcome by text. The empty text means that the outcome is not known yet.
 * @throws SluiceError usage if a text is listed for both outcomes
 */
function outcomesByWord({ positive, negative }: LabelOptions): ReadonlyMap<string, Outcome> {
  const both = positive.filter((word) => negative.includes(word));
  if (both.length > 0)
    throw new SluiceError('usage', `${both.join(', ')} cannot mean both outcomes: name the other one too`);
  return new Map<string, Outcome>([
    ['', UNKNOWN],
    ...positive.map((word): [string, Outcome] => [word, 1]),
    ...negative.map((word): [string, Outcome] => [word, 0]),
  ]);
}
