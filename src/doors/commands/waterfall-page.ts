// The waterfall chart of an explanation as a self-contained HTML page, which can be filed, mailed and printed.
import {
  chartLegend,
  escapeText,
  factCards,
  factTable,
  fitText,
  htmlPage,
  htmlTable,
  svgFrame,
  svgText,
} from '../../report/html-page.ts';
import type { ExplainedRow } from '../../runs/checks/explain-row.ts';
import { number, stepsOf } from './waterfall.ts';

/** Model, file and time of an explanation. */
export interface ExplanationOrigin {
  model: string;
  packageSha256: string;
  modelSha256: string;
  /** Name of the file that contains the row. */
  file: string;
  at: Date;
  /** Scorecard points per unit of log-odds; null if the model has no scorecard. */
  pointsPerLogOdds: number | null;
}

const WIDTH = 400;
const ROW = 34;
const SPACES: Record<string, string> = { log_odds: 'log-odds', probability: 'probability', value: 'value' };

const probabilityOf = (logOdds: number): string => (1 / (1 + Math.exp(-logOdds))).toFixed(4);

/** Scorecard points with a sign and one decimal. */
const pointsOf = (effect: number, perUnit: number): string => number(Number((effect * perUnit).toFixed(1)));

export function waterfallPage(answer: ExplainedRow, top: number, origin: ExplanationOrigin): string {
  const x = answer.interpretation;
  const title = `${origin.model}, row ${answer.row}`;
  const facts = `<section><h2>Origin</h2>${factTable([
    ['file', origin.file],
    ['row', String(answer.row)],
    ['model', origin.model],
    ['SHA-256 of the package', origin.packageSha256],
    ['SHA-256 of the model', origin.modelSha256],
    ['explained', `${origin.at.toISOString().slice(0, 19).replace('T', ' ')} UTC`],
    ...(x && !x.error ? [['method', x.method] as const] : []),
    ...(x?.standard_error === undefined ? [] : [['standard error', `up to ${x.standard_error.toPrecision(2)}`] as const]),
  ])}</section>`; // biome-ignore format: a table
  if (!x || x.error) return htmlPage(title, [`<p>${escapeText(x?.error?.message ?? 'no interpretation')}</p>`, facts]);
  return htmlPage(title, [result(answer, x, top), effects(answer, x, top, origin), reasons(x), allEffects(x, origin), facts]); // biome-ignore format: one line
}

type Explanation = NonNullable<ExplainedRow['interpretation']>;

function result(answer: ExplainedRow, x: Explanation, top: number): string {
  const { prediction, probability, points, decision, value } = answer;
  const total = stepsOf(answer, top).at(-1)?.to ?? x.base;
  const card = (name: string, text: string, note = '') => ({ name, value: text, note, level: 'none' as const });
  return `<section>${factCards([
    ...(decision ? [card('Decision', decision)] : []),
    ...(probability === undefined ? [] : [card('Probability', probability.toFixed(4), 'of the positive class')]),
    ...(points === undefined ? [] : [card('Points', String(points), 'on the scorecard')]),
    ...(typeof prediction === 'string' ? [card('Class', prediction)] : []),
    ...(value === undefined ? [] : [card('Value', String(Number(value.toPrecision(6))))]),
    ...(x.space === 'log_odds' ? [card('Log-odds', total.toFixed(3), `base ${x.base.toFixed(3)} and all effects`)] : []),
  ])}</section>`; // biome-ignore format: a table
}

/** A value in the unit of the chart. Log-odds are also shown as a probability. */
function levelText(value: number, space: string): string {
  return space === 'log_odds' ? `${value.toFixed(3)} = probability ${probabilityOf(value)}` : value.toFixed(4);
}

function effects(answer: ExplainedRow, x: Explanation, top: number, { pointsPerLogOdds }: ExplanationOrigin): string {
  const steps = stepsOf(answer, top);
  const total = steps.at(-1)?.to ?? x.base;
  const ends = [x.base, total, ...steps.map((s) => s.to)];
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const at = (v: number) => 4 + ((v - low) / (high - low || 1)) * (WIDTH - 8);
  const line = (v: number, row: number, name: string) =>
    svgText(0, row * ROW + 12, name, 'start', 'strong') +
    svgText(WIDTH, row * ROW + 12, levelText(v, x.space), 'end', 'strong') +
    `<line x1="${at(v).toFixed(1)}" x2="${at(v).toFixed(1)}" y1="${row * ROW + 16}" y2="${row * ROW + 30}" class="level"/>`;
  const inPoints = x.space === 'log_odds' && pointsPerLogOdds !== null;
  const bars = steps.map((s, i) => {
    const y = (i + 1) * ROW;
    const [a, b] = [Math.min(at(s.from), at(s.to)), Math.max(at(s.from), at(s.to))];
    const size = `${number(s.effect)}${inPoints ? ` (${pointsOf(s.effect, pointsPerLogOdds)} pts)` : ''}`;
    return (
      svgText(0, y + 12, fitText(s.label, WIDTH - (size.length + 2) * 7.6)) +
      svgText(WIDTH, y + 12, size, 'end', 'strong') +
      `<rect x="${a.toFixed(1)}" y="${y + 17}" width="${Math.max(1, b - a).toFixed(1)}" height="11" class="${s.effect >= 0 ? 'up' : 'down'}"><title>${escapeText(`${s.label}: ${size}`)}</title></rect>`
    );
  });
  const what = SPACES[x.space] ?? x.space;
  const legend = chartLegend([
    { name: 'raises the score', style: 'up' },
    { name: 'lowers the score', style: 'down' },
  ]);
  const unit = inPoints ? `${what}, and scorecard points (pts)` : what;
  return `<section><h2>How the score came about</h2><p>The base is the average score of the background sample. Base and effects add up to the score. Unit: ${escapeText(unit)}.</p>${legend}
${svgFrame('waterfall of effects', (steps.length + 2) * ROW, `${line(x.base, 0, 'base')}${bars.join('')}${line(total, steps.length + 1, 'score')}`)}</section>`; // biome-ignore format: one line
}

function reasons({ reasons: given = [] }: Explanation): string {
  if (given.length === 0) return '';
  const items = given.map(({ code, column, text }) => `<li><b>${escapeText(code)}</b> ${escapeText(text)} <span class="note">(${escapeText(column)})</span></li>`); // biome-ignore format: one line
  return `<section><h2>Reasons</h2><ol>${items.join('')}</ol></section>`;
}

function allEffects(
  { effects: all, interactions = [], space }: Explanation,
  { pointsPerLogOdds }: ExplanationOrigin,
): string {
  // biome-ignore format: one line
  const inPoints = space === 'log_odds' && pointsPerLogOdds !== null;
  const head = ['column', 'value', `effect (${SPACES[space] ?? space})`, ...(inPoints ? ['points'] : [])];
  const rows = all.map(({ column, value, effect }) => [
    column,
    value === null ? '(missing)' : String(value),
    number(effect),
    ...(inPoints ? [pointsOf(effect, pointsPerLogOdds)] : []),
  ]);
  const pairs = interactions.map(({ columns, effect }) => [columns.join(' × '), number(effect)]);
  const pairTable = pairs.length === 0 ? '' : htmlTable('interactions, already included in the effects of both columns', [['columns', 'effect'], ...pairs]); // biome-ignore format: one line
  return `<section><details><summary>All effects</summary>${htmlTable('', [head, ...rows])}</details>${pairTable}</section>`;
}
