// Renders an explanation as a waterfall chart: one bar per column, from the base value to the score.
import type { ExplainedRow } from '../../runs/checks/explain-row.ts';

export interface Step {
  label: string;
  effect: number;
  /** Start and end of the bar. */
  from: number;
  to: number;
}

/** The largest effects, one step each, followed by a step with the sum of all other effects. Sorted by size. */
export function stepsOf(answer: ExplainedRow, top: number): Step[] {
  const { base, effects } = answer.interpretation!;
  const shown = effects.slice(0, top);
  const rest = effects.slice(top);
  const steps: Step[] = [];
  let at = base;
  const add = (label: string, effect: number) => {
    steps.push({ label, effect, from: at, to: at + effect });
    at += effect;
  };
  for (const e of shown) add(`${e.column} = ${e.value === null ? '(missing)' : e.value}`, e.effect);
  if (rest.length > 0)
    add(
      `${rest.length} other columns`,
      rest.reduce((n, e) => n + e.effect, 0),
    );
  return steps;
}

export const number = (x: number): string => (x >= 0 ? '+' : '') + withoutEndZeros(x.toPrecision(4));

function withoutEndZeros(text: string): string {
  if (!text.includes('.') || text.includes('e')) return text;
  let end = text.length;
  while (text[end - 1] === '0') end--;
  return text.slice(0, text[end - 1] === '.' ? end - 1 : end);
}

/** The prediction on one line. */
export function headline(answer: ExplainedRow): string {
  const { prediction, probability, points, decision, value } = answer;
  return [
    ...(probability === undefined ? [] : [`probability ${probability.toFixed(4)}`]),
    ...(typeof prediction === 'string' ? [`class ${prediction}`] : []),
    ...(value === undefined ? [] : [`value ${value}`]),
    ...(points === undefined ? [] : [`${points} points`]),
    ...(decision ? [decision] : []),
  ].join(', ');
}

/** The waterfall chart as text, with at most `width` characters per line. */
export function waterfall(ref: string, answer: ExplainedRow, top: number, width: number): string {
  const lines = [`${ref}, row ${answer.row}: ${headline(answer)}`];
  const x = answer.interpretation;
  if (!x || x.error) return `${lines[0]}\n${x?.error?.message ?? 'no interpretation'} [${x?.error?.code ?? ''}]\n`;
  const steps = stepsOf(answer, top);
  const total = steps.at(-1)?.to ?? x.base;
  const label = Math.min(44, Math.max(...steps.map((s) => s.label.length), 10));
  const room = Math.max(20, width - label - 14);
  const low = Math.min(x.base, total, ...steps.map((s) => s.to));
  const high = Math.max(x.base, total, ...steps.map((s) => s.to));
  const at = (v: number) => Math.round(((v - low) / (high - low || 1)) * (room - 1));
  const cut = (text: string) => (text.length > label ? `${text.slice(0, label - 1)}…` : text.padEnd(label));
  const mark = (v: number) => `${' '.repeat(at(v))}│`;
  lines.push(
    `effects in ${x.space}, ${x.method}${x.standard_error === undefined ? '' : `, standard error up to ${x.standard_error.toPrecision(2)}`}`,
    '',
  );
  lines.push(`${cut('base')} ${x.base.toFixed(4).padStart(9)}  ${mark(x.base)}`);
  for (const s of steps) {
    const [a, b] = [Math.min(at(s.from), at(s.to)), Math.max(at(s.from), at(s.to))];
    const bar = ' '.repeat(a) + (s.effect >= 0 ? '█' : '░').repeat(Math.max(1, b - a));
    lines.push(`${cut(s.label)} ${number(s.effect).padStart(9)}  ${bar}`);
  }
  lines.push(`${cut('score')} ${total.toFixed(4).padStart(9)}  ${mark(total)}`);
  if (x.interactions && x.interactions.length > 0) {
    const names = x.interactions.map(({ columns }) => columns.join(' × '));
    const wide = Math.max(...names.map((name) => name.length));
    lines.push('', 'interactions, already included in the effects of both columns:');
    for (const [i, { effect }] of x.interactions.entries()) {
      lines.push(`  ${names[i]!.padEnd(wide)}  ${number(effect).padStart(9)}`);
    }
  }
  if (x.reasons && x.reasons.length > 0) {
    lines.push('', 'reasons:');
    for (const r of x.reasons) lines.push(`  ${r.code}  ${r.text}`);
  }
  return `${lines.join('\n')}\n`;
}
