// Codes of the categories as the models were trained with them; where none were trained, names of the category columns.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { MODELS } from './prepare.ts';

const CATEGORIES = [
  'source_type',
  'remittance_type',
  'occupation_type',
  'marital_status',
  'credit_product_id',
  'verificator_id',
  'partner_id',
];

export function codesOf(): Record<string, Record<string, number>> {
  const file = path.join(MODELS, 'codes.json');
  if (!existsSync(file)) return Object.fromEntries(CATEGORIES.map((c) => [c, {}]));
  return (JSON.parse(readFileSync(file, 'utf8')) as { codes: Record<string, Record<string, number>> }).codes;
}
