// The portfolio generator: realistic applications with missing values, unseen categories and, on request, planted errors.

import { Random } from '../core/random.ts';
import { addOddCells, type Oddness } from './oddness.ts';
import * as population from './population.ts';

export interface GenerateOptions {
  rows: number;
  /**
   * Seed. The same seed always produces the same bytes. Row i depends neither on the number of rows nor on planted
   * errors.
   */
  seed: number;
  delimiter?: string;
  /** Number of invalid rows, spread evenly over the file. */
  faults?: number;
  /** Whether to add the outcome column `ok`. */
  outcome?: boolean;
  /** Whether to add `application_id` as the first column. */
  ids?: boolean;
  /** How odd the rows are. Default: light. Missing values are always included. */
  oddness?: Oddness;
  /** Whether to generate a drifted portfolio (see `DRIFTED`). Default: no. */
  drift?: boolean;
}

export interface PlantedFault {
  /** Number of the data row, from 1. */
  row: number;
  /** Number of the line in the file, from 1. The header is line 1. */
  line: number;
  /** Error code with which the row must be rejected. */
  code: string;
  column?: string;
}

export const COLUMNS = [
  'amount',
  'source_type',
  'remittance_type',
  'term',
  'income',
  'occupation_type',
  'pension_contributions',
  'criminal_record',
  'marital_status',
  'add_info_fraud',
  'add_info_inadequate',
  'add_info_poor_appearance',
  'credit_product_id',
  'verificator_id',
  'partner_id',
  'add_income_pension',
  'add_info_call_before_visit',
  'had_arrears',
  'had_credits_before',
  'has_active_credit',
  'monthly_payment',
  'pt_income',
  'banned',
];
const AT = Object.fromEntries(COLUMNS.map((c, i) => [c, i]));

const CHUNK_CHARACTERS = 128 * 1024;
/**
 * Placeholder for the invalid UTF-8 bytes 0xFF 0xFE, which replace it when the chunk is encoded. The placeholder has
 * the same length in bytes and occurs in no value.
 */
const NOT_UTF8 = '\u0080';

const SHARES = {
  remittance: population.cumulative(population.REMITTANCE),
  occupation: population.cumulative(population.OCCUPATION),
  marital: population.cumulative(population.MARITAL),
  term: population.cumulative(population.TERM),
};

const FAULTS: { code: string; column?: string; plant: (fields: string[]) => void }[] = [
  { code: 'column_count', plant: (f) => f.pop() },
  { code: 'bad_number', column: 'amount', plant: (f) => set(f, 'amount', '12.5x') },
  { code: 'bad_boolean', column: 'banned', plant: (f) => set(f, 'banned', 'maybe') },
  { code: 'invalid_utf8', plant: (f) => set(f, 'source_type', `ONLI${NOT_UTF8}NE`) },
  { code: 'malformed_record', plant: (f) => set(f, 'occupation_type', '"abc"def') },
  { code: 'column_count', plant: (f) => f.push('extra') },
  { code: 'bad_number', column: 'income', plant: (f) => set(f, 'income', '1 000') },
];

/** Yields the file in chunks. `onFault` is called for each planted error when the row of the error is written. */
export function* generatePortfolio(
  options: GenerateOptions,
  onFault?: (fault: PlantedFault) => void,
): Generator<Buffer> {
  const delimiter = options.delimiter ?? ',';
  const faults = Math.min(options.faults ?? 0, options.rows);
  const header = [...(options.ids ? ['application_id'] : []), ...COLUMNS, ...(options.outcome ? ['ok'] : [])];
  const special = ['"', '\r', '\n', delimiter];
  const random = new Random();
  const oddness = options.oddness ?? 'light';
  const fields: string[] = [];
  let text = `${header.join(delimiter)}\n`;
  let line = 2;
  let planted = 0;
  for (let row = 1; row <= options.rows; row++) {
    random.seed(options.seed, row);
    fields.length = 0;
    const ok = application(random, fields, options.drift ? population.DRIFTED : population.STABLE, oddness);
    let lines = 1;
    for (const c of CATEGORIES) {
      const value = fields[c]!;
      if (!special.some((c) => value.includes(c))) continue;
      lines += value.split('\n').length - 1;
      fields[c] = `"${value.replaceAll('"', '""')}"`;
    }
    // The file has `faults` equal sections, and each has one error in its middle.
    if (planted < faults && row === Math.ceil(((planted + 0.5) * options.rows) / faults)) {
      const fault = FAULTS[planted % FAULTS.length]!;
      // An invalid row must not span several lines.
      if (lines > 1) set(fields, 'occupation_type', 'EMPLOYEE');
      lines = 1;
      fault.plant(fields);
      planted++;
      onFault?.({ row, line, code: fault.code, ...(fault.column ? { column: fault.column } : {}) });
    }
    if (options.ids) text += `A${String(row).padStart(8, '0')}${delimiter}`;
    text += fields.join(delimiter);
    text += options.outcome ? `${delimiter}${ok}\n` : '\n';
    line += lines;
    if (text.length >= CHUNK_CHARACTERS) {
      yield encode(text);
      text = '';
    }
  }
  if (text !== '') yield encode(text);
}

const CATEGORIES = ['source_type', 'occupation_type', 'marital_status', 'verificator_id', 'partner_id'].map(
  (c) => AT[c]!,
);

function set(fields: string[], column: string, value: string): void {
  fields[AT[column]!] = value;
}

function encode(text: string): Buffer {
  const bytes = Buffer.from(text);
  const mark = Buffer.from(NOT_UTF8);
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at)) bytes.writeUInt16BE(0xfffe, at);
  return bytes;
}

const CENTS = Array.from({ length: 100 }, (_, c) => String(c / 100).slice(1));

/**
 * Formats an amount with at most two decimals. Using an integer and a lookup table is much faster than formatting a
 * fraction.
 */
function money(v: number): string {
  const cents = Math.round(v * 100);
  return Math.floor(cents / 100) + CENTS[cents % 100]!;
}

/** Writes one application into `fields`, unquoted. Returns whether the loan was repaid. */
function application(r: Random, fields: string[], tendency: population.Tendency, oddness: Oddness): boolean {
  const { SOURCE, REMITTANCE, OCCUPATION, MARITAL, TERM, PRODUCTS, VERIFICATORS, PARTNERS } = population;
  const source = SOURCE[r.pick(tendency.source)]!;
  const remittance = REMITTANCE[r.pick(SHARES.remittance)]!;
  const occupation = OCCUPATION[r.pick(SHARES.occupation)]!;
  const marital = MARITAL[r.pick(SHARES.marital)]!;
  const product = PRODUCTS[Math.floor(r.uniform() * PRODUCTS.length)]!;
  const verificator = VERIFICATORS[Math.min(r.geometric(0.12), VERIFICATORS.length - 1)]!;
  const partner = PARTNERS[Math.min(r.geometric(0.1), PARTNERS.length - 1)]!;
  const usual = Math.round(Math.exp(occupation.income + 0.45 * r.normal()) * 100) / 100;
  const income = tendency.income * usual;
  const wish = Math.exp(Math.log(usual) + 0.35 + 0.7 * r.normal());
  const amount = Math.min(500_000, Math.max(1000, Math.round(wish / 100) * 100));
  const term = TERM[r.pick(SHARES.term)]!.months;
  const rate = 0.12 + 0.33 * r.uniform();
  const payment = Math.round(((amount * (1 + (rate * term) / 12)) / term) * 100) / 100;
  const partTime = r.chance(0.3) ? Math.round(Math.exp(8.6 + 0.7 * r.normal()) * 100) / 100 : 0;
  const pensioner = occupation.name === 'PENSIONER';
  const employed = occupation.name === 'EMPLOYEE' || occupation.name === 'CIVIL_SERVANT';
  const contributions = r.chance(employed ? 0.85 : 0.3);
  const criminal = r.chance(0.03);
  const fraud = r.chance(0.02);
  const inadequate = r.chance(0.03);
  const poor = r.chance(0.05);
  const pension = r.chance(pensioner ? 0.9 : 0.08);
  const call = r.chance(0.4);
  const before = r.chance(0.62);
  const arrears = before && r.chance(0.2);
  const active = r.chance(before ? 0.45 : 0.12);
  const banned = r.chance(0.012);
  const noIncome = r.chance(0.07);

  let z = 2.35 + source.effect + remittance.effect + occupation.effect + marital.effect;
  z += product.effect + verificator.effect + partner.effect;
  const burden = Math.log(payment / (income + partTime) / 0.15);
  z += -1.1 * Math.min(2.5, Math.max(-2, burden)) + 0.35 * (Math.log(income) - 10.3) - 0.012 * (term - 18);
  z += 0.35 * Number(contributions) - 1.2 * Number(criminal) - 2.2 * Number(fraud) - 0.9 * Number(inadequate);
  z += -0.5 * Number(poor) + 0.2 * Number(pension) + 0.05 * Number(call) - 1.3 * Number(arrears);
  z += 0.5 * Number(before) - 0.3 * Number(active) - 3 * Number(banned) - 0.7 * Number(arrears && active);
  z -= 0.5 * Number(noIncome);
  const ok = r.chance(1 / (1 + Math.exp(-z)));

  fields.push(
    String(amount),
    source.name,
    remittance.name,
    r.chance(0.01) ? '' : String(term),
    noIncome ? '' : money(income),
    r.chance(tendency.noOccupation) ? '' : occupation.name,
    r.chance(0.03) ? '' : String(contributions),
    String(criminal),
    r.chance(0.03) ? '' : marital.name,
    String(fraud),
    String(inadequate),
    String(poor),
    product.name,
    r.chance(0.04) ? '' : verificator.name,
    partner.name,
    String(pension),
    String(call),
    r.chance(0.05) ? '' : String(arrears),
    String(before),
    String(active),
    money(payment),
    r.chance(0.1) ? '' : money(partTime),
    String(banned),
  );
  if (oddness === 'light' && r.chance(tendency.unseen)) writeUnseen(r, fields, tendency);
  if (oddness !== 'none' && oddness !== 'light') addOddCells(r, fields, AT, oddness);
  return ok;
}

/** Writes an unseen category into `fields`. */
function writeUnseen(r: Random, fields: string[], { unseenIn }: population.Tendency): void {
  const entries = Object.entries(population.UNSEEN_CATEGORIES).filter(
    ([c]) => unseenIn === undefined || c === unseenIn,
  );
  const [column, values] = entries[Math.floor(r.uniform() * entries.length)]!;
  // The last value contains a line break, and is picked least often.
  const last = r.chance(0.05) ? values.length : Math.max(1, values.length - 1);
  set(fields, column, values[Math.floor(r.uniform() * last)]!);
}
