// The report of `sluice outcomes` as a self-contained HTML page.
import { count } from '../../monitor/progress.ts';
import type { OutcomeGroup, OutcomeReport } from '../../outcomes/outcome-report.ts';
import {
  chartLegend,
  escapeText,
  factCards,
  factTable,
  htmlPage,
  htmlTable,
  monthChart,
  type PageLevel,
  plainPercent,
  shareChart,
  verdictBox,
} from '../../report/html-page.ts';
import { figure, joinWords, monthOf } from './outcome-words.ts';

/**
 * Mean difference between predicted and observed rates that needs attention. The part that chance causes is subtracted
 * first.
 */
const ECE = { off: 0.02, wrong: 0.05 } as const;
/**
 * `weak`: below this AUC, the model hardly ranks. `lost`: a loss of AUC over the months that needs attention, if it
 * exceeds two standard errors.
 */
const AUC = { weak: 0.6, lost: 0.03 } as const;

export interface OutcomePageOrigin {
  /** The inputs, named as on the command line. */
  predictions: readonly string[];
  labels: string;
  at: Date;
}

interface ModelVerdict {
  level: PageLevel;
  headline: string;
  points: string[];
}

export function outcomePage(report: OutcomeReport, origin: OutcomePageOrigin): string {
  const models = [...new Set(report.groups.map(({ model }) => model))];
  const day = origin.at.toISOString().slice(0, 16).replace('T', ' ');
  const parts = models.map((model) => modelSection(report, model, models.length > 1));
  return htmlPage(`Outcomes of ${models.length === 1 ? models[0] : `${models.length} models`}, ${day} UTC`, [
    ...parts,
    sourceSection(report, origin, day),
  ]);
}

/** Answers the question "does the model still work?", from ranking, calibration, and their change over the months. */
export function outcomeVerdict(whole: OutcomeGroup, months: readonly OutcomeGroup[]): ModelVerdict {
  const points: [PageLevel, string][] = [];
  const { auc, calibration } = whole;
  if (auc === null) {
    return { level: 'none', headline: 'Not measurable yet', points: ['All known outcomes are the same, so AUC and KS are undefined.'] }; // biome-ignore format: one line
  }
  if (auc < AUC.weak) {
    points.push(['bad', `The score hardly separates good from bad applications: AUC ${auc.toFixed(3)} (0.5 is chance).`]); // biome-ignore format: one line
  }
  const off = calibration ? calibration.ece - chanceError(calibration.deciles) : 0;
  if (calibration && off >= ECE.off) {
    const high = meanPredicted(whole) > whole.positives / whole.rows;
    const level = off >= ECE.wrong ? 'bad' : 'warn';
    points.push([level, `Probabilities differ from the observed rates by ${plainPercent(calibration.ece)} on average; overall they are too ${high ? 'high' : 'low'}.`]); // biome-ignore format: one line
  }
  const measured = months.filter((m) => m.auc !== null);
  const [first, last] = [measured[0], measured.at(-1)];
  if (
    first &&
    last &&
    first !== last &&
    first.auc! - last.auc! >= Math.max(AUC.lost, 2 * Math.hypot(aucError(first), aucError(last)))
  ) {
    points.push(['warn', `AUC fell from ${first.auc!.toFixed(3)} (${first.month}) to ${last.auc!.toFixed(3)} (${last.month}).`]); // biome-ignore format: one line
  }
  const level: PageLevel = points.some(([l]) => l === 'bad') ? 'bad' : points.length > 0 ? 'warn' : 'good';
  const headline = { bad: 'Check the model', warn: 'Works, with remarks', good: 'No problem found', none: '' }[level];
  const words = points.map(([, text]) => text);
  return { level, headline, points: words.length > 0 ? words : [`The score ranks applications (AUC ${auc.toFixed(3)}), and probabilities agree with the observed rates.`] }; // biome-ignore format: one line
}

/** The calibration error that chance alone causes: two standard errors of the observed rate of each bin. */
function chanceError(bins: NonNullable<OutcomeGroup['calibration']>['deciles']): number {
  const rows = bins.reduce((n, bin) => n + bin.rows, 0);
  const errors = bins.map(({ rows: n, meanProbability: p }) => (n / rows) * 2 * Math.sqrt((p * (1 - p)) / n));
  return errors.reduce((sum, error) => sum + error, 0);
}

/** Standard error of the AUC (Hanley and McNeil 1982). */
function aucError({ auc, positives, negatives }: OutcomeGroup): number {
  const a = auc ?? 0.5;
  const spread = (positives - 1) * (a / (2 - a) - a * a) + (negatives - 1) * ((2 * a * a) / (1 + a) - a * a);
  return Math.sqrt((a * (1 - a) + spread) / (positives * negatives));
}

function meanPredicted({ calibration, rows }: OutcomeGroup): number {
  return (calibration?.deciles ?? []).reduce((sum, bin) => sum + bin.rows * bin.meanProbability, 0) / Math.max(1, rows);
}

function modelSection({ groups, totals }: OutcomeReport, model: string, named: boolean): string {
  const months = groups.filter((g) => g.model === model);
  const whole = totals.find((g) => g.model === model) ?? months[0]!;
  const { level, headline, points } = outcomeVerdict(whole, months);
  const card = (name: string, value: string, note: string) => ({ name, value, note, level: 'none' as const });
  const cards = factCards([
    card('Outcomes', count(whole.rows), `${count(whole.negatives)} bad (${plainPercent(whole.negatives / whole.rows)})`),
    card('AUC', figure(whole.auc), whole.gini === null ? 'one outcome only' : `Gini ${whole.gini.toFixed(3)}`),
    card('KS', figure(whole.ks), 'largest distance of good and bad'),
    card('Calibration error', figure(whole.calibration?.ece), 'ECE: mean of |predicted − observed|'),
    card('Calibration slope', figure(whole.calibration?.slope), `ideal 1; intercept ${figure(whole.calibration?.intercept)}`),
    card('Brier score', figure(whole.brier), 'smaller is better'),
  ]); // biome-ignore format: a table
  const title = named ? `<h2>${escapeText(model)}</h2>` : '';
  return `<section>${title}${verdictBox(level, headline, points)}${cards}</section>${calibrationSection(whole)}${monthSection(months)}${decisionSection(whole)}`; // biome-ignore format: one line
}

function calibrationSection({ calibration }: OutcomeGroup): string {
  if (!calibration) return '';
  const { deciles } = calibration;
  const table = deciles.map(({ rows, meanProbability, observedRate }, i) => [
    String(i + 1),
    count(rows),
    meanProbability.toFixed(4),
    observedRate.toFixed(4),
    (observedRate - meanProbability).toFixed(4),
  ]);
  const points = deciles.map(({ meanProbability, observedRate }): [number, number] => [meanProbability, observedRate]);
  return `<section><h2>Calibration</h2><p>Each dot is a tenth of the applications. On the dashed line, predicted and observed rates are equal.</p>
${shareChart('calibration by decile', { x: 'predicted probability', y: 'observed rate' }, points)}${htmlTable('calibration by decile of the score', [['decile', 'rows', 'predicted', 'observed', 'difference'], ...table])}</section>`; // biome-ignore format: one line
}

function monthSection(months: readonly OutcomeGroup[]): string {
  if (months.length < 2) return '';
  const table = months.map((m) => [
    monthOf(m),
    count(m.rows),
    plainPercent(m.negatives / m.rows),
    figure(m.auc),
    figure(m.ks),
    figure(m.brier),
    figure(m.calibration?.ece),
  ]);
  const measured = months.filter((m) => m.auc !== null);
  const series = [
    { name: 'AUC', style: 'now', values: measured.map((m) => m.auc!) },
    { name: 'KS', style: 'before', values: measured.map((m) => m.ks ?? 0) },
  ];
  const chart = measured.length < 2 ? '' : `${chartLegend(series)}${monthChart('AUC and KS by month', measured.map(monthOf), series)}`; // biome-ignore format: one line
  return `<section><h2>Over time</h2>${chart}${htmlTable('by month of the application', [['month', 'rows', 'bad', 'AUC', 'KS', 'Brier', 'ECE'], ...table])}</section>`; // biome-ignore format: one line
}

function decisionSection({ decisions, rows }: OutcomeGroup): string {
  if (decisions.length === 0 || decisions.every(({ decision }) => decision === null)) return '';
  const table = decisions.map((d) => [d.decision ?? '(none)', count(d.rows), plainPercent(d.rows / rows), count(d.bad), plainPercent(d.badRatio)]); // biome-ignore format: one line
  return `<section><h2>Decisions</h2>${htmlTable('outcomes by decision', [['decision', 'rows', 'share', 'bad', 'bad rate'], ...table])}</section>`;
}

function sourceSection(report: OutcomeReport, { predictions, labels }: OutcomePageOrigin, day: string): string {
  const joined = joinWords(report)
    .split('\n')
    .map((line) => `<p>${escapeText(line)}</p>`);
  const facts = [
    ...predictions.map((name) => ['predictions', name] as const),
    ['labels', labels] as const,
    ['written', `${day} UTC`] as const,
  ];
  return `<section><h2>Inputs</h2>${factTable(facts)}${joined.join('')}</section>`;
}
