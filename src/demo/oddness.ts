// Writes oddities of real portfolios into an application: missing and unseen values, quotes, long texts and numbers.
import type { Random } from '../core/random.ts';

/**
 * How odd the rows are:
 * - none: only missing values
 * - light: a few unseen categories
 * - real: oddities with the shares in `REAL`
 * - heavy: as real; in addition, every row has an unseen category and a number of 20 digits
 * - cyrillic: every row has an unseen category in Cyrillic
 */
export const ODDNESS = ['none', 'light', 'real', 'heavy', 'cyrillic'] as const;
export type Oddness = (typeof ODDNESS)[number];

/** Shares of rows that have an oddity. A row can have several. */
const REAL = {
  /**
   * Share of rows in which one more value is removed. Together with the values that are always missing, 48 % of the
   * rows have a missing value.
   */
  blank: 0.235,
  unseen: 0.23,
  nonAscii: 0.04,
  quoted: 0.04,
  signOrExponent: 0.04,
  longText: 0.003,
  longNumber: 0.003,
};
const LONG_TEXT = 500;

/** Columns that may be empty in applications for the bundled model. */
const OPTIONAL = ['term', 'income', 'occupation_type', 'marital_status', 'verificator_id', 'had_arrears', 'pt_income'];
const WORDS: Readonly<Record<string, readonly string[]>> = {
  source_type: ['TELEGRAM_BOT', 'KIOSK', 'Partner site (new)'],
  occupation_type: ['FREELANCE', 'FARMER', 'SEAFARER'],
  marital_status: ['SEPARATED', 'ENGAGED'],
  verificator_id: ['931', '9999999'],
  partner_id: ['P9999', 'X17'],
};
const NON_ASCII: Readonly<Record<string, readonly string[]>> = {
  source_type: ['ФІЛІЯ', 'Geschäftsstelle'],
  occupation_type: ['ПЕНСІОНЕР', 'підприємець', 'Künstlerin'],
  marital_status: ['ОДРУЖЕНИЙ', '已婚'],
};
const QUOTED: Readonly<Record<string, readonly string[]>> = {
  occupation_type: ['FREELANCE, "OTHER"', '"DIRECTOR", PART-TIME', 'EMPLOYEE;"NEW"'],
  source_type: ['SITE "A", BANNER 7'],
};
const WITH_LETTERS = ['source_type', 'remittance_type', 'occupation_type', 'marital_status'];
const WITH_ZEROS = ['credit_product_id', 'verificator_id'];
const NUMBERS = ['amount', 'income', 'monthly_payment', 'pt_income'];

/**
 * Changes values in `fields`, which are unquoted; `at` maps column names to indexes. The number of random numbers drawn
 * varies.
 */
export function addOddCells(
  random: Random,
  fields: string[],
  at: Readonly<Record<string, number>>,
  oddness: 'real' | 'heavy' | 'cyrillic',
): void {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random.uniform() * list.length)]!;
  const set = (column: string, value: string): void => {
    fields[at[column]!] = value;
  };
  const word = (words: Readonly<Record<string, readonly string[]>>): void => {
    const column = pick(Object.keys(words));
    set(column, pick(words[column]!));
  };
  /** A number column that is not empty. The column amount never is. */
  const numberColumn = (): string => {
    const column = pick(NUMBERS);
    return fields[at[column]!] === '' ? 'amount' : column;
  };
  const lengthen = (): void => {
    const column = numberColumn();
    const value = fields[at[column]!]!;
    const digits = Array.from({ length: 20 - value.replace('.', '').length }, () => Math.floor(random.uniform() * 10));
    set(column, `${value.includes('.') ? value : `${value}.`}${digits.join('')}`);
  };
  const unseen = (): void => {
    const kind = random.uniform();
    const column = pick(kind < 0.7 ? WITH_LETTERS : WITH_ZEROS);
    const value = fields[at[column]!]!;
    const changed = kind < 0.7 ? value.toLowerCase() : value.replace(/^0+/, '');
    // An empty value, or a value without zeros, cannot be changed.
    if (kind < 0.4 || changed === value) word(WORDS);
    else set(column, changed);
  };

  if (random.chance(REAL.blank)) set(pick(OPTIONAL), '');
  if (oddness === 'heavy' || random.chance(REAL.unseen)) unseen();
  if (oddness === 'cyrillic' || random.chance(REAL.nonAscii)) word(NON_ASCII);
  if (random.chance(REAL.quoted)) word(QUOTED);
  if (random.chance(REAL.longText)) set('occupation_type', 'WORKS AS '.repeat(LONG_TEXT / 9 + 1).slice(0, LONG_TEXT));
  if (random.chance(REAL.longNumber)) set('amount', `${fields[at.amount!]}00000000000007`);
  else if (oddness === 'heavy') lengthen();
  if (random.chance(REAL.signOrExponent)) {
    const column = numberColumn();
    const value = fields[at[column]!]!;
    set(column, random.chance(0.5) ? `+${value}` : exponential(value));
  }
}

/** The same number with an exponent: 1234.5 → 1.2345e3. */
function exponential(value: string): string {
  const [whole, fraction = ''] = value.split('.');
  const digits = whole! + fraction;
  return `${digits[0]}.${digits.slice(1) || '0'}e${whole!.length - 1}`;
}
