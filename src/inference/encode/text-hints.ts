// What to declare when a text is refused: the options that would let it pass, and never the text itself.
import { type TextRules, withoutBlanks } from '../../core/input-declaration.ts';
import { notationThatReads } from './notation.ts';

/** A longer text is no number or word that somebody wrote otherwise. */
const LONGEST = 64;
/** Words that exports write where there is nothing. */
const NOTHING = new Set([
  'null',
  '(null)',
  '\\n',
  'nil',
  'none',
  'n/a',
  '#n/a',
  'na',
  'n.a.',
  'k.a.',
  'nan',
  '-',
  '--',
  '.',
  '?',
  'missing',
]);

export interface Refused {
  text: string;
  rules: TextRules | null;
  /** Whether the column would take this text as it stands. */
  takes: (text: string) => boolean;
  /** The column is one of numbers. */
  number: boolean;
}

/** ` (declare …)`, or nothing where no option helps. */
export function declarationFor({ text, rules, takes, number }: Refused): string {
  if (text.length > LONGEST) return '';
  const trimmed = withoutBlanks(text);
  const blanks = trimmed !== text && rules?.trim !== true ? ['trim'] : [];
  if (takes(trimmed)) return asked(blanks);
  if (trimmed === '' || NOTHING.has(trimmed.toLowerCase())) return asked([...blanks, 'null_values']);
  const notation = number ? notationThatReads(trimmed, takes) : null;
  return notation === null ? '' : asked([...blanks, notation]);
}

const asked = (options: readonly string[]): string =>
  options.length === 0 ? '' : ` (if it is meant so, declare ${options.join(' and ')})`;
