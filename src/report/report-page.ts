// The report of a run as a self-contained HTML page, which can be filed, mailed and printed. The page contains no
// values of applications.
import { isDeepStrictEqual } from 'node:util';
import { PSI_LEVELS, percent, type Shares } from '../drift/drift-report.ts';
import {
  barChart,
  binNames,
  chartLegend,
  edgeTexts,
  escapeText,
  factCards,
  factTable,
  htmlPage,
  htmlTable,
  lineChart,
  type PageLevel,
  rankChart,
  type Series,
  verdictBox,
} from './html-page.ts';
import { embedded, type ReportData } from './report-data.ts';

/** Maximum number of inputs, of rejected rows and of bars to show. */
const SHOWN = { inputs: 200, rejects: 50, bars: 8 } as const;
/** From this share of rejected rows on, a person must check the run before the output is used. */
const MANY_REJECTS = 0.05;

const count = (n: number): string => n.toLocaleString('en-US');
const psiText = (psi: number | null): string => (psi === null ? 'not measured' : psi.toFixed(3));
const psiLevel = (psi: number | null): PageLevel =>
  psi === null ? 'none' : psi >= PSI_LEVELS.drifted ? 'bad' : psi >= PSI_LEVELS.moved ? 'warn' : 'good';
const PSI_WORDS: Record<PageLevel, string> = {
  good: 'as in the training data',
  warn: 'some drift',
  bad: 'strong drift',
  none: 'not measured',
};

export function reportPage(data: ReportData): string {
  const title = `${data.name}: ${data.model}, ${data.began.slice(0, 16).replace('T', ' ')} UTC`;
  const parts = [verdict(data), score(data), columns(data), decisions(data), rejects(data), rows(data), throughput(data), ran(data)]; // biome-ignore format: one line
  return htmlPage(title, parts, embedded(data));
}

interface RunVerdict {
  level: PageLevel;
  headline: string;
  /** The reasons for the verdict, the most important first. */
  points: string[];
}

/**
 * Answers the question "is it right?". The answer is green only if the output is complete, and drift was measured and
 * is small.
 */
export function runVerdict(data: ReportData): RunVerdict {
  const { exitCode, error } = data;
  const { read, rejected } = totalsOf(data);
  const stopped = data.inputs.filter((input) => input.verdict === 'stopped').length;
  const points: [PageLevel, string][] = [];
  if (rejected > 0) {
    points.push([rejected >= MANY_REJECTS * read ? 'bad' : 'warn', `${count(rejected)} of ${count(read)} rows were rejected (${percent(rejected / read)}).`]); // biome-ignore format: one line
  }
  if (data.inputsDoneBefore > 0) points.push(['warn', `${doneBefore(data.inputsDoneBefore)} Read the report of that run as well.`]); // biome-ignore format: one line
  const scoreLevel = psiLevel(data.scorePsi);
  if (scoreLevel === 'bad' || scoreLevel === 'warn') {
    points.push([scoreLevel, `The scores differ from the training data: PSI ${psiText(data.scorePsi)}, ${PSI_WORDS[scoreLevel]}.`]); // biome-ignore format: one line
  }
  const drifted = byPsi(data).filter(({ psi }) => psi !== null && psi >= PSI_LEVELS.moved);
  const worst = drifted[0];
  if (worst) {
    const level = psiLevel(worst.psi);
    const more = drifted.length === 1 ? '' : ` ${drifted.length} of ${data.columns.length} columns drifted.`;
    points.push([level, `The column ${worst.column} differs most from the training data: PSI ${psiText(worst.psi)}, ${PSI_WORDS[level]}.${more}`]); // biome-ignore format: one line
  }
  const unmeasured = data.scorePsi === null && byPsi(data).every(({ psi }) => psi === null);
  if (unmeasured) points.push(['none', driftMissing(data)]);
  const sorted = [...points].sort((a, b) => RANK[a[0]] - RANK[b[0]]);
  const reasons = sorted.map(([, text]) => text);
  const first = error === null ? [] : [error.split('\n')[0]!];
  if (exitCode === 4) {
    const what = data.inputs.length > 1 ? `${stopped} of ${data.inputs.length} inputs were not` : 'nothing was';
    return { level: 'bad', headline: `Stopped by the gate: ${what} published`, points: [...first, ...reasons] }; // biome-ignore format: one line
  }
  if (exitCode !== 0 && exitCode !== 3) {
    return { level: 'bad', headline: `Failed: ${data.published ? 'see the error' : 'nothing was published'}`, points: [...first, ...reasons] }; // biome-ignore format: one line
  }
  const level = sorted[0]?.[0] ?? 'good';
  if (level === 'bad') return { level, headline: 'Check before use', points: reasons };
  if (level === 'warn') return { level, headline: 'Complete, with remarks', points: reasons };
  if (level === 'none') return { level, headline: 'Complete, but drift was not checked', points: reasons };
  return { level, headline: 'No problem found', points: ['Every row was scored. No column and no score drifted from the training data.'] }; // biome-ignore format: one line
}

const doneBefore = (n: number): string =>
  n === 1
    ? 'An earlier run had already scored 1 input, which this report does not cover.'
    : `An earlier run had already scored ${count(n)} inputs, which this report does not cover.`;

const RANK: Record<PageLevel, number> = { bad: 0, warn: 1, none: 2, good: 3 };

const driftMissing = ({ training, columns: all, rows: scored }: ReportData): string =>
  training === null && all.length === 0 && scored === 0
    ? 'Drift was not measured: the package has no baseline, or no row was scored.'
    : 'Drift was not measured: the run has too few rows.';

const totalsOf = ({ inputs }: ReportData) => ({
  read: inputs.reduce((n, one) => n + one.rows, 0),
  scored: inputs.reduce((n, one) => n + one.scored, 0),
  rejected: inputs.reduce((n, one) => n + one.rejected, 0),
});

const byPsi = ({ columns: all }: ReportData) => all.toSorted((a, b) => (b.psi ?? -1) - (a.psi ?? -1));

function verdict(data: ReportData): string {
  const { inputs, exitCode } = data;
  const { level, headline, points } = runVerdict(data);
  const { read, scored, rejected } = totalsOf(data);
  const stopped = inputs.filter((input) => input.verdict === 'stopped');
  const passed = inputs.filter((input) => input.verdict === 'passed').length;
  const tables = stopped.map(({ input, exceeded }) => htmlTable(`limits exceeded by ${input}`, exceeded));
  const judged = passed + stopped.length;
  const worst = byPsi(data)[0];
  const rejectedLevel: PageLevel = rejected === 0 ? 'good' : rejected >= MANY_REJECTS * read ? 'bad' : 'warn';
  const cards = factCards([
    { name: 'Rows read', value: count(read), note: inputs.length === 1 ? 'from one input' : `from ${inputs.length} inputs`, level: 'none' },
    { name: 'Scored', value: count(scored), note: read === 0 ? '' : percent(scored / read), level: 'none' },
    { name: 'Rejected', value: count(rejected), note: read === 0 ? '' : percent(rejected / read), level: read === 0 ? 'none' : rejectedLevel },
    judged === 0
      ? { name: 'Gate', value: 'none', note: 'this run had no limits', level: 'none' }
      : { name: 'Gate', value: stopped.length > 0 ? 'stopped' : 'passed', note: judged === 1 ? 'one input' : `${passed} passed, ${stopped.length} stopped`, level: stopped.length > 0 ? 'bad' : 'good' },
    { name: 'Drift of the score', value: data.scorePsi === null ? 'not measured' : `PSI ${data.scorePsi.toFixed(2)}`, note: data.scorePsi === null ? '' : PSI_WORDS[psiLevel(data.scorePsi)], level: psiLevel(data.scorePsi) },
    { name: 'Worst column', value: worst?.psi == null ? 'not measured' : worst.column, note: worst?.psi == null ? '' : `PSI ${worst.psi.toFixed(2)}, ${PSI_WORDS[psiLevel(worst.psi)]}`, level: psiLevel(worst?.psi ?? null) },
  ]); // biome-ignore format: a table
  return `<section>${verdictBox(level, headline, points)}${cards}${tables.join('')}<p class="note">Exit code ${exitCode}. PSI compares with the training data: below ${PSI_LEVELS.moved} stable, from ${PSI_LEVELS.drifted} strong drift.</p></section>`; // biome-ignore format: one line
}

function ran(data: ReportData): string {
  const facts: [string, string][] = [
    ['model', data.model],
    ['SHA-256 of the model', data.modelSha256],
    ['evaluator, workers', data.evaluator === null ? 'unknown' : `${data.evaluator}, ${data.workers}`],
    ['Sluice, Node.js', `${data.sluice}, ${data.node}`],
    ['began', data.began],
    ['seconds', data.seconds.toFixed(1)],
    ...data.outputs.map((name): [string, string] => ['output', name]),
    ...data.rejectLists.map((name): [string, string] => ['rejects file', name]),
    ...data.manifests.map((name): [string, string] => ['manifest', name]),
  ];
  const settings = data.options.length === 0 ? '' : `<h2>Settings</h2>${factTable(data.options)}`;
  return `<section><h2>What ran</h2>${factTable(facts)}${settings}</section>`;
}

function rows({ inputs, inputsDoneBefore }: ReportData): string {
  const table = inputs
    .slice(0, SHOWN.inputs)
    .map((one) => [one.input, count(one.rows), count(one.scored), count(one.rejected), one.verdict ?? 'none']);
  const more = inputs.length > SHOWN.inputs ? `<p>and ${inputs.length - SHOWN.inputs} more</p>` : '';
  const before = inputsDoneBefore > 0 ? `<p>${doneBefore(inputsDoneBefore)}</p>` : '';
  return `<section><h2>Inputs</h2>${htmlTable('rows read = scored + rejected', [['input', 'rows', 'scored', 'rejected', 'gate'], ...table])}${more}${before}</section>`; // biome-ignore format: one line
}

function score(data: ReportData): string {
  const { score: now, training, previous, edges } = data;
  if (!now || !training) return '';
  // Another version can have other bins, even if their number is the same.
  const before = isDeepStrictEqual(previous?.edges, edges) ? (previous?.score ?? null) : null;
  const labels = binNames(edgeTexts(edges), now.bins.length);
  const of = (name: string, style: string, shares: Shares): Series => ({ name, style, values: shares.bins });
  const series = [of('training', 'training', training), ...(before ? [of('previous run', 'before', before)] : []), of('this run', 'now', now)]; // biome-ignore format: one line
  const table = labels.map((label, bin) => [label, ...series.map(({ values }) => percent(values[bin]!))]);
  const compared = previous ? `Previous run: ${escapeText(previous.began.slice(0, 16).replace('T', ' '))} UTC, ${escapeText(previous.model)}, ${count(previous.rows)} rows${previous.score && !before ? '; its score had other bins, so its distribution is not shown' : ''}.` : 'No previous run to compare with.'; // biome-ignore format: one line
  return `<section><h2>Score</h2><p>PSI against the training data: ${psiText(data.scorePsi)} (${PSI_WORDS[psiLevel(data.scorePsi)]}). ${compared}</p>${chartLegend(series)}
${barChart('distribution of the score', 'score', edges, series)}<details><summary>as numbers</summary>${htmlTable('share of rows by score', [['score', ...series.map(({ name }) => name)], ...table])}</details></section>`; // biome-ignore format: one line
}

function decisions({ decisions: now, previous }: ReportData): string {
  if (now.length === 0) return '';
  const before = new Map(previous?.decisions.map(({ decision, share }) => [decision, share]));
  const table = now.map(({ decision, share }) => {
    const was = before.get(decision);
    const moved =
      was === undefined ? '' : `${share >= was ? '+' : '−'}${(100 * Math.abs(share - was)).toFixed(1)} points`;
    return [decision === '' ? '(none)' : decision, percent(share), was === undefined ? 'unknown' : percent(was), moved];
  });
  const bars = now.map(({ share }, i) => ({ name: table[i]![0]!, value: share, text: percent(share), style: 'now' }));
  const compared = previous ? table : table.map((row) => row.slice(0, 2));
  const head = ['decision', 'this run', 'previous run', 'moved'].slice(0, compared[0]!.length);
  return `<section><h2>Decisions</h2>${rankChart('share of rows by decision', bars)}
${htmlTable('share of rows by decision', [head, ...compared])}</section>`;
}

function columns(data: ReportData): string {
  const { columns: all } = data;
  if (all.length === 0) return '';
  const table = all.map(({ column, psi, missing, missingInTraining, unseen, outOfRange }) => [
    column,
    psiText(psi),
    PSI_WORDS[psiLevel(psi)],
    percent(missing),
    percent(missingInTraining),
    percent(unseen),
    outOfRange === null ? '' : percent(outOfRange),
  ]);
  const head = ['column', 'PSI', 'drift', 'missing', 'in training', 'unseen', 'out of range'];
  const worst = byPsi(data).filter(({ psi }) => psi !== null).slice(0, SHOWN.bars); // biome-ignore format: one line
  const bars = worst.map(({ column, psi }) => ({ name: column, value: psi!, text: psi!.toFixed(2), style: psiLevel(psi) })); // biome-ignore format: one line
  const chart = bars.length === 0 ? '' : rankChart('PSI of the columns that drifted most', bars, { at: PSI_LEVELS.drifted, name: `strong drift from ${PSI_LEVELS.drifted}` }); // biome-ignore format: one line
  return `<section><h2>Columns</h2><p>PSI against the training data; the columns that differ most are first.</p>${chart}<details><summary>as numbers</summary>${htmlTable('drift by column', [head, ...table])}</details></section>`; // biome-ignore format: one line
}

function rejects({ inputs }: ReportData): string {
  const byCode = new Map<string, { rows: number; first: string[] }>();
  for (const input of inputs) {
    for (const [code, n] of Object.entries(input.rejectedByCode)) {
      const known = byCode.get(code) ?? { rows: 0, first: [] };
      known.rows += n;
      byCode.set(code, known);
    }
    for (const { row, code, column } of input.rejects) {
      const first = byCode.get(code)?.first ?? [];
      const file = inputs.length > 1 ? ` of ${input.input}` : '';
      if (first.length < SHOWN.rejects) first.push(`${count(row)}${column === null ? '' : ` (${column})`}${file}`);
    }
  }
  if (byCode.size === 0) return '';
  const table = [...byCode].sort((a, b) => b[1].rows - a[1].rows).map(([code, { rows: n, first }]) => [code, count(n), first.join(', ')]); // biome-ignore format: one line
  return `<section><h2>Rejected rows</h2>${htmlTable('by code', [['code', 'rows', 'first rows'], ...table])}</section>`;
}

function throughput({ progress }: ReportData): string {
  const speeds = progress.slice(1).map(([at, n], i): [number, number] => {
    const [before, had] = progress[i]!;
    return [at, Math.max(0, n - had) / Math.max(1e-3, at - before)];
  });
  if (speeds.length === 0) return '';
  const table = speeds.map(([at, speed]) => [at.toFixed(1), count(Math.round(speed))]);
  return `<section><h2>Throughput</h2>${lineChart('rows per second over time', { x: 'seconds since the start', y: 'rows per second' }, speeds)}<details><summary>as numbers</summary>${htmlTable('rows per second', [['seconds', 'rows/s'], ...table])}</details></section>`;
}
