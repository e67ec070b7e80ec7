// Which of two classes is the positive one, whose probability is served: asked for where names do not show it.
import type { ClassLabel } from '../inference/onnx/nodes.ts';
import type { Draft } from './draft.ts';
import { refusal } from './findings.ts';

const GOOD = [
  'good', 'ok', 'true', 'yes', 'y', 'paid', 'repaid', 'approve', 'approved', 'accept', 'accepted', 'positive',
  'performing', 'fully paid', 'fully_paid', 'current',
]; // biome-ignore format: a list
const BAD = [
  'bad', 'false', 'no', 'n', 'default', 'defaulted', 'reject', 'rejected', 'negative', 'not_ok', 'charged_off',
  'charged off', 'late', 'overdue', 'fraud',
]; // biome-ignore format: a list
/** Names of outcome columns in which 1 is the bad outcome. */
const BAD_OUTCOME =
  /^(?:is)?(?:bad|defaults|defaulted|default|fraud|arrears|delinq[a-z]{0,12}|chargedoff|chargeoff|writeoff|npl|overdue|dpd\d{0,4})(?:flag|ind)?$/;
/** Words of such a name: is_charged_off_flag. */
const NAME_WORDS = 4;

/** true: of these two classes the first is the one a lender does not want, by its name or that of the outcome. */
function isBadClass(label: ClassLabel, other: ClassLabel | undefined, outcome: string | null): boolean {
  const [word, rest] = [label, other].map((c) => String(c).toLowerCase());
  if (BAD.includes(word!) || GOOD.includes(rest!)) return !GOOD.includes(word!);
  const bad = outcome !== null && namesBadOutcome(outcome);
  return bad ? word === '1' : rest === '1';
}

export const isGoodWord = (word: string): boolean => GOOD.includes(word.toLowerCase());

function namesBadOutcome(column: string): boolean {
  const words = column.toLowerCase().split(/[\W_]/);
  const from = (at: number) => Array.from({ length: NAME_WORDS }, (_, n) => words.slice(at, at + n + 1).join(''));
  return words.some((_, at) => from(at).some((name) => BAD_OUTCOME.test(name)));
}

/** @throws SluiceError registration_refused */
export function positiveOf(classes: readonly ClassLabel[], { options, outcome, findings }: Draft): ClassLabel {
  if (options.positiveClass !== undefined) {
    const found = classes.find((c) => String(c) === options.positiveClass);
    if (found === undefined)
      throw refusal(`--positive-class ${options.positiveClass} is none of ${classes.join(', ')}`);
    const other = classes.find((c) => c !== found);
    if (isBadClass(found, other, outcome)) {
      findings.assumed(
        `the probability is that of class ${found} of ${outcome ?? 'the outcome'}, as --positive-class says, and falls as class ${other} becomes likelier; decisions and reasons take a high probability as good (--positive-class ${other} serves 1 minus that)`,
      );
    } else findings.info(`The probability is that of class ${found}.`);
    return found;
  }
  const column = outcome ?? 'the outcome';
  const one = classes.find((c) => String(c) === '1');
  if (one !== undefined && classes.some((c) => String(c) === '0' || String(c) === '-1')) {
    if (namesBadOutcome(column)) {
      const other = classes.find((c) => c !== one);
      throw refusal(
        `1 of ${column} looks like the bad outcome. Decisions and reasons take a high probability as good, so say what is wanted: --positive-class ${other} serves the probability that it does not happen, --positive-class ${one} that it does`,
      );
    }
    findings.info(`The probability is that of class 1 of ${column}.`);
    return one;
  }
  const words = classes.map((c) => String(c).toLowerCase());
  const good = words.findIndex((w) => GOOD.includes(w) || w === outcome?.toLowerCase());
  const bad = words.findIndex((w) => BAD.includes(w));
  const pick = good >= 0 ? good : bad >= 0 ? 1 - bad : -1;
  if (pick < 0 || (good >= 0 && good === bad)) {
    throw refusal(`which of ${classes.join(' and ')} is the class whose probability is wanted? Say --positive-class`);
  }
  findings.assumed(`the probability is that of class ${classes[pick]} (--positive-class to change that)`);
  return classes[pick]!;
}
