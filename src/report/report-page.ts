// The report of a run as a self-contained HTML page that can be filed, mailed and printed. It contains no application values.
import { percent, type Shares } from '../drift/drift-report.ts';
import { barChart, escapeText, htmlPage, htmlTable, lineChart, type Series } from './html-page.ts';
import { embedded, type ReportData } from './report-data.ts';

/** Maximum numbers of inputs and rejected rows shown. */
const SHOWN = { inputs: 200, rejects: 50 } as const;

const count = (n: number): string => n.toLocaleString('en-US');
const psiText = (psi: number | null): string => (psi === null ? 'too few rows' : psi.toFixed(3));

export function reportPage(data: ReportData): string {
  const title = `${data.name}: ${data.model}, ${data.began.slice(0, 16).replace('T', ' ')} UTC`;
  const parts = [verdict(data), ran(data), rows(data), score(data), decisions(data), columns(data), rejects(data), throughput(data)]; // biome-ignore format: one line
  return htmlPage(title, parts, embedded(data));
}

function verdict({ exitCode, error, inputs }: ReportData): string {
  const stopped = inputs.filter((input) => input.verdict === 'stopped');
  const passed = inputs.filter((input) => input.verdict === 'passed').length;
  const words = {
    0: 'Completed: every row was scored.',
    3: 'Completed; some rows were rejected.',
    4: 'Stopped by the gate: the output was not published.',
  }[exitCode];
  const first = error?.split('\n')[0];
  const tables = stopped.map(({ input, exceeded }) => htmlTable(`limits exceeded by ${input}`, exceeded));
  return `<section><p class="${exitCode === 0 || exitCode === 3 ? 'good' : 'bad'}">${words ?? 'Failed.'} Exit code ${exitCode}.</p>
${first === undefined ? '' : `<p>${escapeText(first)}</p>`}
<p>${passed + stopped.length === 0 ? 'The run had no gate.' : `Gate: ${passed} passed, ${stopped.length} stopped.`}</p>${tables.join('')}</section>`;
}

function ran(data: ReportData): string {
  const facts: string[][] = [
    ['what', ''],
    ['model', data.model],
    ['sha256 of the model', data.modelSha256],
    ['evaluator, workers', data.evaluator === null ? '' : `${data.evaluator}, ${data.workers}`],
    ['Sluice, Node', `${data.sluice}, ${data.node}`],
    ['began', data.began],
    ['seconds', data.seconds.toFixed(1)],
    ...data.outputs.map((name) => ['output', name]),
    ...data.rejectLists.map((name) => ['rejected rows', name]),
    ...data.manifests.map((name) => ['manifest', name]),
    ...data.options,
  ];
  return `<section><h2>What ran</h2>${htmlTable('the run', facts)}</section>`;
}

function rows({ inputs }: ReportData): string {
  const table = inputs
    .slice(0, SHOWN.inputs)
    .map((one) => [one.input, count(one.rows), count(one.scored), count(one.rejected), one.verdict ?? '']);
  const more = inputs.length > SHOWN.inputs ? `<p>and ${inputs.length - SHOWN.inputs} more</p>` : '';
  return `<section><h2>Rows</h2>${htmlTable('rows read = scored + rejected', [['input', 'rows', 'scored', 'rejected', 'gate'], ...table])}${more}</section>`; // biome-ignore format: one line
}

function score(data: ReportData): string {
  const { score: now, training, previous, edges } = data;
  if (!now || !training) return '';
  const before = previous?.score?.bins.length === now.bins.length ? previous.score : null;
  const labels = now.bins.map((_, bin) => `${bin === 0 ? '' : (edges[bin - 1] ?? 0).toFixed(2)}–${bin === now.bins.length - 1 ? '' : (edges[bin] ?? 0).toFixed(2)}`); // biome-ignore format: one line
  const of = (name: string, style: string, shares: Shares): Series => ({ name, style, values: shares.bins });
  const series = [of('training', 'training', training), ...(before ? [of('previous run', 'before', before)] : []), of('this run', 'now', now)]; // biome-ignore format: one line
  const table = labels.map((label, bin) => [label, ...series.map(({ values }) => percent(values[bin]!))]);
  const legend = series.map(({ name, style }) => `<span class="key ${style}"></span>${name}`).join(' ');
  const compared = previous ? `Previous run: ${escapeText(previous.began)}, ${escapeText(previous.model)}, ${count(previous.rows)} rows.` : 'No previous run to compare with.'; // biome-ignore format: one line
  return `<section><h2>Score</h2><p>PSI against the training: ${psiText(data.scorePsi)}. ${compared}</p><p class="legend">${legend}</p>
${barChart('distribution of the score', labels, series)}${htmlTable('share of rows by score', [['score', ...series.map(({ name }) => name)], ...table])}</section>`; // biome-ignore format: one line
}

function decisions({ decisions: now, previous }: ReportData): string {
  if (now.length === 0) return '';
  const before = new Map(previous?.decisions.map(({ decision, share }) => [decision, share]));
  const table = now.map(({ decision, share }) => {
    const was = before.get(decision);
    const moved =
      was === undefined ? '' : `${share >= was ? '+' : '−'}${(100 * Math.abs(share - was)).toFixed(1)} points`;
    return [decision === '' ? '(none)' : decision, percent(share), was === undefined ? '' : percent(was), moved];
  });
  return `<section><h2>Decisions</h2>${barChart('decisions', table.map(([name]) => name!), [{ name: 'this run', style: 'now', values: now.map(({ share }) => share) }])}
${htmlTable('share of rows by decision', [['decision', 'this run', 'previous run', 'moved'], ...table])}</section>`; // biome-ignore format: one line
}

function columns({ columns: all }: ReportData): string {
  if (all.length === 0) return '';
  const table = all.map(({ column, psi, missing, missingInTraining, unseen, outOfRange }) => [
    column,
    psiText(psi),
    percent(missing),
    percent(missingInTraining),
    percent(unseen),
    outOfRange === null ? '' : percent(outOfRange),
  ]);
  const head = ['column', 'PSI', 'missing', 'in training', 'unseen', 'out of range'];
  return `<section><h2>Columns</h2><p>Compared with the training data; the columns with the largest drift are first.</p>${htmlTable('drift by column', [head, ...table])}</section>`;
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
  return `<section><h2>Throughput</h2>${lineChart('rows a second over time', speeds)}<details><summary>as numbers</summary>${htmlTable('rows a second', [['seconds', 'rows/s'], ...table])}</details></section>`;
}
