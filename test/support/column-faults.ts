// What senders do to a column of a portfolio without a word: rows that can all be read, and are not what they were.
import { COLUMNS, generatePortfolio } from '../../src/demo/portfolio.ts';

type Application = Record<string, string>;

export interface ColumnFault {
  name: string;
  /** Columns that the gate has to name; none: rows are rejected. */
  columns: readonly string[];
  plant(row: Application, index: number): void;
}

const each =
  (column: string, change: (value: string) => string) =>
  (row: Application): void => {
    if (row[column] !== '') row[column] = change(row[column]!);
  };
const times = (column: string, factor: number) =>
  each(column, (v) => String(Math.round(Number(v) * factor * 100) / 100));
const absent = (column: string, value: string) => (row: Application) => {
  if (row[column] === '') row[column] = value;
};
const BOOLEANS = ['pension_contributions', 'criminal_record', 'add_info_fraud', 'had_arrears', 'had_credits_before', 'banned']; // biome-ignore format: one line

export const COLUMN_FAULTS: readonly ColumnFault[] = [
  {
    name: 'leading zeros lost',
    columns: ['credit_product_id'],
    plant: each('credit_product_id', (v) => String(Number(v))),
  },
  {
    name: 'columns shifted by one',
    columns: ['had_arrears', 'had_credits_before', 'has_active_credit'],
    plant: (row) => {
      [row.had_arrears, row.had_credits_before, row.has_active_credit] = [row.has_active_credit!, row.had_arrears!, row.had_credits_before!]; // biome-ignore format: one line
    },
  },
  { name: 'lower case', columns: ['occupation_type'], plant: each('occupation_type', (v) => v.toLowerCase()) },
  { name: 'cents for euros', columns: ['amount'], plant: times('amount', 100) },
  {
    name: 'decimal point lost',
    columns: ['monthly_payment'],
    plant: each('monthly_payment', (v) => v.replace('.', '')),
  },
  { name: 'a column emptied', columns: ['marital_status'], plant: each('marital_status', () => '') },
  {
    name: 'two columns swapped',
    columns: ['income', 'pt_income'],
    plant: (row) => {
      [row.income, row.pt_income] = [row.pt_income!, row.income!];
    },
  },
  {
    name: 'booleans turned round',
    columns: BOOLEANS,
    plant: (row) => {
      for (const column of BOOLEANS) each(column, (v) => (v === 'true' ? 'false' : 'true'))(row);
    },
  },
  {
    name: 'Latin-1 read as UTF-8',
    columns: ['occupation_type'],
    plant: each('occupation_type', (v) => v.replace('CIVIL_', 'CIVIL\u00c2\u00a0')),
  },
  {
    name: 'cut at the thousands separator',
    columns: ['income'],
    plant: each('income', (v) => String(Math.floor(Number(v) / 1000))),
  },
  { name: 'thousands separators', columns: [], plant: each('income', (v) => v.replace(/(\d)(\d{3})\b/, '$1 $2')) },
  { name: 'a year for a month', columns: ['income'], plant: times('income', 12) },
  { name: 'texts cut', columns: ['source_type'], plant: each('source_type', (v) => v.slice(0, 8)) },
  { name: 'one value for all', columns: ['term'], plant: each('term', () => '12') },
  { name: 'sign turned round', columns: ['monthly_payment'], plant: each('monthly_payment', (v) => `-${v}`) },
  { name: 'years for months', columns: ['term'], plant: times('term', 1 / 12) },
  { name: 'nothing written as 0', columns: ['income'], plant: absent('income', '0') },
  { name: 'nothing written as 9999999', columns: ['pt_income'], plant: absent('pt_income', '9999999') },
  { name: 'blanks behind', columns: ['remittance_type'], plant: each('remittance_type', (v) => v.padEnd(10)) },
  {
    name: 'a category swallowed',
    columns: ['remittance_type'],
    plant: each('remittance_type', (v) => (v === 'WALLET' ? 'CARD' : v)),
  },
  { name: 'a flag never set', columns: ['criminal_record'], plant: each('criminal_record', () => 'false') },
  {
    name: 'another list of codes',
    columns: ['partner_id'],
    plant: each('partner_id', (v) => `P${String(Number(v.slice(1)) + 30).padStart(4, '0')}`),
  },
  { name: 'a default for what nobody asked', columns: ['verificator_id'], plant: absent('verificator_id', '000') },
  {
    name: 'values of the row before',
    columns: ['pension_contributions'],
    plant: (row) => {
      row.pension_contributions = row.criminal_record!;
    },
  },
];

/** A portfolio as CSV, with the fault in every row. */
export function faultyPortfolio(rows: number, seed: number, plant: ColumnFault['plant'] = () => {}): string {
  const [, ...lines] = Buffer.concat([...generatePortfolio({ rows, seed, oddness: 'none' })])
    .toString()
    .trimEnd()
    .split('\n');
  const changed = lines.map((line, index) => {
    const cells = line.split(',');
    const row: Application = Object.fromEntries(COLUMNS.map((column, i) => [column, cells[i]!]));
    plant(row, index);
    return COLUMNS.map((column) => row[column]!).join(',');
  });
  return `${COLUMNS.join(',')}\n${changed.join('\n')}\n`;
}
