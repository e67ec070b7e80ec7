// The file of a German bank, whose names do not resemble those of the model.
import { encoded } from '../support/encodings.ts';
import type { Applications } from './applications.ts';

/** Model column → its name in the file. */
export const GERMAN_NAMES: Readonly<Record<string, string>> = {
  amount: 'KREDITBETRAG',
  source_type: 'VERTRIEBSWEG',
  remittance_type: 'AUSZAHLUNG',
  term: 'LAUFZEIT',
  income: 'EINKOMMEN',
  occupation_type: 'BERUF',
  pension_contributions: 'RENTENBEITRAG',
  criminal_record: 'VORSTRAFE',
  marital_status: 'FAMILIENSTAND',
  add_info_fraud: 'HINWEIS_BETRUG',
  add_info_inadequate: 'HINWEIS_VERHALTEN',
  add_info_poor_appearance: 'HINWEIS_ERSCHEINUNG',
  credit_product_id: 'PRODUKT',
  verificator_id: 'PRÜFER',
  partner_id: 'VERMITTLER',
  add_income_pension: 'RENTE',
  add_info_call_before_visit: 'VORHER_ANRUFEN',
  had_arrears: 'RÜCKSTAND',
  had_credits_before: 'VORKREDIT',
  has_active_credit: 'LAUFENDER_KREDIT',
  monthly_payment: 'RATE',
  pt_income: 'NEBENEINKOMMEN',
  banned: 'GESPERRT',
};

const CENTS = new Set(['amount', 'income', 'monthly_payment', 'pt_income']);

/** 12000 as 12.000,00 */
const german = (text: string): string =>
  text === '' ? '' : new Intl.NumberFormat('de-DE', { minimumFractionDigits: 2 }).format(Number(text));

export function germanFile({ columns, rows }: Applications): Buffer {
  const dates = (r: number) => [`${String((r % 28) + 1).padStart(2, '0')}.11.2026`, '30.11.2026'];
  const head = ['ANTRAGSDATUM', 'STICHTAG', 'FILIALE', ...columns.map(({ name }) => GERMAN_NAMES[name]!)];
  const table = rows.map((row, r) => [
    ...dates(r),
    ['München', 'Köln', 'Fürth'][r % 3]!,
    ...row.map((cell, i) => (CENTS.has(columns[i]!.name) ? german(cell) : cell)),
  ]);
  const total = ['SUMME', String(rows.length), ...head.slice(2).map(() => '')];
  const lines = [['Kreditanträge der Filialen'], head, ...table, total].map((cells) => `${cells.join(';')}\r\n`);
  return encoded(lines.join(''), 'windows-1252');
}
