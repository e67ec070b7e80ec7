// Texts as owners of inputs write them: the same value in another notation, with blanks around it, or a word for nothing.
import type { TextRules } from '../../src/core/input-declaration.ts';
import type { Draw } from './decoding.ts';

const NO_BREAK = '\u00a0';
const MARKS = {
  point: ['.'],
  comma: [','],
  space: [' ', NO_BREAK, '\u202f'],
  apostrophe: ["'", '\u2019'],
} as const;
const PLAIN = /^([+-]?)(\d*)(?:\.(\d*))?((?:[eE].*)?)$/;

/** Rules of every sort: all of decimal, thousands, trim and null_values, alone and together. */
export const RULES: readonly TextRules[] = (['point', 'comma'] as const).flatMap((decimal) =>
  ([null, 'point', 'comma', 'space', 'apostrophe'] as const).flatMap((thousands) =>
    thousands === decimal
      ? []
      : [false, true].map((trim, i) => ({
          decimal,
          thousands,
          trim,
          nullValues: [[], ['NULL', 'N/A', '-', '-999', '1,5', '1.5', ' ']][(i + (thousands === null ? 0 : 1)) % 2]!,
        })),
  ),
);

/** A plain number in the notation of the rules, grouped or not; any other text as it is. */
export function localNumber(draw: Draw, text: string, { decimal, thousands }: TextRules): string {
  const parts = PLAIN.exec(text);
  if (!parts) return text;
  const [, sign, whole, fraction, exponent] = parts;
  const mark = thousands === null ? null : draw.of<string>(MARKS[thousands]);
  const grouped = mark === null || draw.chance(0.4) ? whole! : whole!.replace(/\B(?=(\d{3})+$)/g, mark);
  return `${sign}${grouped}${fraction === undefined ? '' : MARKS[decimal][0] + fraction}${exponent}`;
}

/** The text with blanks around it that the rules take off, at random. */
export function padded(draw: Draw, text: string, { trim }: TextRules): string {
  if (!trim || draw.chance(0.6)) return text;
  const blanks = () => draw.of(['', ' ', '  ', '\t', NO_BREAK, ` ${NO_BREAK}`]);
  return `${blanks()}${text}${blanks()}`;
}

/** A word for nothing, where there is one. */
export const nothing = (draw: Draw, { nullValues }: TextRules, otherwise: string): string =>
  nullValues.length === 0 ? otherwise : draw.of(nullValues);
