// Values of the training table that the encoder does not know and would know if they were spelled another way: leading zeros that
// a spreadsheet or pandas took, another case, blanks, 1.0 for 1.
import type { Draft, DraftColumn } from './draft.ts';
import { plural } from './findings.ts';
import { missingIn, valuesIn } from './training-table.ts';

/** Share of the rows with an unknown value from which the table cannot be the one the encoder was made with. */
const FOREIGN_SHARE = 0.5;
/** Share of the unknown rows that another spelling has to explain. */
const EXPLAINED = 0.5;
/** Rows with a value that only another spelling knows, as a share of all. */
const NOTICED = 0.005;

/** What the table says against the encoding, a text a column. */
export function respelledValues({ columns }: Draft): string[] {
  return columns.flatMap((column) => {
    const found = foreignValues(column);
    return found === null ? [] : [`column ${column.spec.name}: ${found}`];
  });
}

function foreignValues({ spec, profile, known }: DraftColumn): string | null {
  const list = spec.codes ? Object.keys(spec.codes) : (known?.values ?? spec.values);
  if (spec.kind !== 'category' || !list || list.length === 0 || !profile.distinct) return null;
  const words = new Set(list);
  const values = valuesIn(profile);
  const unknown = [...profile.distinct].filter(([value]) => !words.has(value));
  const rows = unknown.reduce((n, [, count]) => n + count, 0);
  if (rows === 0 || rows <= NOTICED * (values + missingIn(profile))) return null;
  for (const [what, respell] of SPELLINGS) {
    const byKey = new Set(list.flatMap((w) => respell(w) ?? []));
    const explained = unknown.reduce((n, [value, count]) => {
      const key = respell(value);
      return key !== null && byKey.has(key) ? n + count : n;
    }, 0);
    if (explained > EXPLAINED * rows)
      return `${plural(explained, 'row')} hold values that the encoding knows ${what}: write the table, and applications, as they were in training (read_csv(dtype=str)), or the codes as the table has them`;
  }
  if (rows <= FOREIGN_SHARE * values) return null;
  return `${plural(rows, 'row')} of ${values.toLocaleString('en')} hold values that the encoding does not know: it is not that of this table`;
}

/** The digits of a whole number without leading zeros, 1.0 as 1. */
function wholeNumber(value: string): string | null {
  if (!/^\d+(?:\.0)?$/.test(value)) return null;
  return String(BigInt(value.split('.', 1)[0]!));
}

/** In words → what two spellings of one value have in common; null: it cannot be spelled so. */
const SPELLINGS: readonly (readonly [string, (value: string) => string | null])[] = [
  ['with other leading zeros', wholeNumber],
  ['in capital or small letters', (v) => v.toLowerCase()],
  ['with or without blanks around', (v) => v.trim().toLowerCase()],
];
