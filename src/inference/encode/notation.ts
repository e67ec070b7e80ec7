// Numbers as people write them where they live: 1.234,56 or 1'234.56 or 1 234,56, told apart by what was declared.
import type { NumberNotation } from '../../core/input-declaration.ts';

const MARKS = { point: '.', comma: ',' } as const;
const GROUPS = { point: /\./, comma: /,/, space: /[ \u00a0\u202f]/, apostrophe: /['\u2019]/ } as const;
const DIGITS = /^\d*$/;
/** Digits between a sign and an exponent; what marks them is looked at apart. */
const PARTS = /^([+-]?)([\d., \u00a0\u202f'\u2019]+)((?:[eE][+-]?\d+)?)$/;

const PLAIN: NumberNotation = { decimal: 'point', thousands: null };

/**
 * The number with a point and without marks between its digits, or null if it is not written this way. Groups are those of three digits,
 * all of them or none: 1.23 is no number where the point separates thousands.
 */
export function plainNumber(text: string, { decimal, thousands }: NumberNotation): string | null {
  const parts = PARTS.exec(text);
  if (!parts) return null;
  const [whole, fraction, ...more] = parts[2]!.split(MARKS[decimal]);
  if (more.length > 0 || !DIGITS.test(fraction ?? '')) return null;
  const digits = withoutGroups(whole!, thousands);
  if (digits === null) return null;
  return `${parts[1]}${digits}${fraction === undefined ? '' : `.${fraction}`}${parts[3]}`;
}

function withoutGroups(whole: string, thousands: NumberNotation['thousands']): string | null {
  if (DIGITS.test(whole)) return whole;
  if (thousands === null) return null;
  const [first, ...rest] = whole.split(GROUPS[thousands]);
  if (first!.length < 1 || first!.length > 3 || !DIGITS.test(first!)) return null;
  return rest.every((group) => group.length === 3 && DIGITS.test(group)) ? first + rest.join('') : null;
}

/** All ways to write a number, the plain one left out; those that say least come first. */
const OTHERS: readonly NumberNotation[] = (['point', 'comma'] as const).flatMap((decimal) =>
  [null, 'point', 'comma', 'space', 'apostrophe'].flatMap((mark) => {
    const thousands = mark as NumberNotation['thousands'];
    return mark === decimal || (decimal === 'point' && mark === null) ? [] : [{ decimal, thousands }];
  }),
);

const said = ({ decimal, thousands }: NumberNotation): string =>
  [decimal === 'comma' ? 'decimal: comma' : null, thousands === null ? null : `thousands: ${thousands}`]
    .filter((x) => x !== null)
    .join(' with ');

/** Whether `a` declares less than `b`, and nothing else. */
const isPart = (a: NumberNotation, b: NumberNotation): boolean =>
  a !== b &&
  (a.decimal === b.decimal || a.decimal === PLAIN.decimal) &&
  (a.thousands === b.thousands || a.thousands === PLAIN.thousands);

/** The declarations by which `text` would be a number, in words; null: none. `isNumber` judges plain ones. */
export function notationThatReads(text: string, isNumber: (plain: string) => boolean): string | null {
  const ways = OTHERS.filter((notation) => {
    const plain = plainNumber(text, notation);
    return plain !== null && isNumber(plain);
  });
  // Where a part of what a way says is enough, the whole of it is not needed.
  const fewest = ways.filter((way) => !ways.some((other) => isPart(other, way)));
  return fewest.length === 0 ? null : fewest.map(said).join(', or ');
}
