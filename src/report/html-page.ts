// The frame of self-contained HTML pages, and charts as inline SVG. A page is one file without scripts, which can be
// filed, mailed and printed.
import { styledHead } from '../core/html-policy.ts';

// Every chart comes with a table of the same numbers.

export const escapeText = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** `warn`: a person should check this. `bad`: a person must check this before the output is used. */
export type PageLevel = 'good' | 'warn' | 'bad' | 'none';

export interface Series {
  name: string;
  /** Name of the CSS style: `now`, `training`, `before`, `up`, `down`, or a level. */
  style: string;
  values: readonly number[];
}

// On narrow screens, the CSS enlarges the text of charts. Charts therefore reserve space for the larger text.
const WIDTH = 400;
const HEIGHT = 222;
const PLOT = { left: 46, right: 388, top: 14, base: 184 } as const;
/** Width of the widest character in the larger text, in units of the chart. */
const CHARACTER = 7.6;

const fixed = (x: number): string => x.toFixed(1);

/** Permits line breaks within names and paths, after an underscore or a slash. */
const breakable = (text: string): string => escapeText(text).replace(/[_/]/g, '$&<wbr>');

/** Maximum length in characters of a table cell that is not wrapped. */
const SHORT_CELL = 28;

export const svgFrame = (label: string, height: number, body: string): string =>
  `<svg viewBox="0 0 ${WIDTH} ${fixed(height)}" role="img" aria-label="${escapeText(label)}">${body}</svg>`;

export const svgText = (x: number, y: number, text: string, anchor = 'start', style = ''): string =>
  `<text x="${fixed(x)}" y="${fixed(y)}" text-anchor="${anchor}"${style === '' ? '' : ` class="${style}"`}>${escapeText(text)}</text>`;

/** Shortens a text to the width of a chart. The table next to the chart contains the whole text. */
export const fitText = (text: string, width: number): string => {
  const most = Math.max(4, Math.floor(width / CHARACTER));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

/** Round numbers for an axis, from 0 to at least `most`. */
function ticksTo(most: number): number[] {
  const rough = Math.max(most, 1e-9) / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5].find((n) => n * unit >= rough) ?? 10) * unit;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, i) => i * step);
}

/** Horizontal grid lines with their numbers, and the names of both axes. */
function axes(ticks: readonly number[], format: (n: number) => string, names: { x: string; y: string }): string {
  const top = ticks.at(-1)!;
  const lines = ticks.map((tick) => {
    const y = PLOT.base - (tick / top) * (PLOT.base - PLOT.top - 16);
    return `<line class="grid" x1="${PLOT.left}" x2="${PLOT.right}" y1="${fixed(y)}" y2="${fixed(y)}"/>${svgText(PLOT.left - 5, y + 4, format(tick), 'end')}`;
  });
  return `${lines.join('')}${svgText(2, PLOT.top, names.y)}${svgText((PLOT.left + PLOT.right) / 2, HEIGHT - 4, names.x, 'middle')}`;
}

const heightOf = (value: number, top: number): number => (value / top) * (PLOT.base - PLOT.top - 16);

/** Formats edges with the smallest number of decimals that makes them different. */
export function edgeTexts(edges: readonly number[]): string[] {
  const decimals = [2, 3, 4].find((n) => new Set(edges.map((x) => x.toFixed(n))).size === edges.length) ?? 4;
  return edges.map((x) => x.toFixed(decimals));
}

export const plainPercent = (share: number): string => `${Number((100 * share).toFixed(1))} %`;

/** A chart with a group of bars per bin; the inner edges of the bins are on the axis. The values are shares. */
export function barChart(label: string, axis: string, edges: readonly number[], series: readonly Series[]): string {
  const bins = Math.max(1, ...series.map(({ values }) => values.length));
  const ticks = ticksTo(Math.max(0.01, ...series.flatMap(({ values }) => values)));
  const step = (PLOT.right - PLOT.left) / bins;
  const wide = (step * 0.84) / Math.max(1, series.length);
  const texts = edgeTexts(edges);
  const names = binNames(texts, bins);
  const bars = series.flatMap(({ name, style, values }, s) =>
    values.map((value, k) => {
      const height = heightOf(value, ticks.at(-1)!);
      const title = escapeText(`${name}, ${names[k]}: ${plainPercent(value)}`);
      return `<rect class="${style}" x="${fixed(PLOT.left + k * step + step * 0.08 + s * wide)}" y="${fixed(PLOT.base - height)}" width="${fixed(wide)}" height="${fixed(height)}"><title>${title}</title></rect>`;
    }),
  );
  const every = Math.max(1, Math.ceil((Math.max(1, ...texts.map((t) => t.length)) * CHARACTER + 6) / step));
  const marks = texts.flatMap((text, k) => (k % every === 0 ? [svgText(PLOT.left + (k + 1) * step, PLOT.base + 16, text, 'middle')] : [])); // biome-ignore format: one line
  return svgFrame(label, HEIGHT, axes(ticks, plainPercent, { x: axis, y: 'share of rows' }) + bars.join('') + marks.join('')); // biome-ignore format: one line
}

/** Names of bins, derived from their inner edges: `below 0.50`, `0.50–0.75`, `from 0.75`. */
export function binNames(edges: readonly string[], bins: number): string[] {
  if (edges.length === 0) return Array.from({ length: bins }, () => 'all');
  return Array.from({ length: bins }, (_, k) =>
    k === 0 ? `below ${edges[0]}` : k >= edges.length ? `from ${edges.at(-1)}` : `${edges[k - 1]}–${edges[k]}`,
  );
}

interface RankedBar {
  name: string;
  value: number;
  /** The value as text for people. */
  text: string;
  style: string;
}

/** Horizontal bars, each below its name and its value. `mark`: a vertical line, such as a threshold. */
export function rankChart(label: string, bars: readonly RankedBar[], mark?: { at: number; name: string }): string {
  const ROW = 32;
  const head = mark ? 22 : 4;
  const most = Math.max(1e-9, mark ? mark.at * 1.2 : 0, ...bars.map(({ value }) => value));
  const at = (value: number): number => (value / most) * (WIDTH - 4);
  const drawn = bars.map(({ name, value, text, style }, i) => {
    const y = head + i * ROW;
    const room = WIDTH - (text.length + 2) * CHARACTER;
    return `${svgText(0, y + 12, fitText(name, room))}${svgText(WIDTH, y + 12, text, 'end', 'strong')}<rect class="${style}" x="0" y="${y + 16}" width="${fixed(Math.max(1, at(value)))}" height="9"><title>${escapeText(`${name}: ${text}`)}</title></rect>${mark ? `<line class="mark" x1="${fixed(at(mark.at))}" x2="${fixed(at(mark.at))}" y1="${y + 14}" y2="${y + 27}"/>` : ''}`;
  });
  const bottom = head + bars.length * ROW;
  const limit = mark ? svgText(Math.max(0, Math.min(at(mark.at) - 4, WIDTH - mark.name.length * CHARACTER)), 12, `¦ ${mark.name}`) : ''; // biome-ignore format: one line
  return svgFrame(label, bottom + 2, drawn.join('') + limit);
}

const compact = (n: number): string =>
  n >= 1e6 ? `${Number((n / 1e6).toFixed(1))}M` : n >= 1e3 ? `${Number((n / 1e3).toFixed(1))}k` : String(Number(n.toPrecision(3))); // biome-ignore format: one line

/** A line through points, in ascending order of x. Both axes start at 0. */
export function lineChart(
  label: string,
  names: { x: string; y: string },
  points: readonly (readonly [number, number])[],
): string {
  // biome-ignore format: one line
  const across = ticksTo(Math.max(1e-9, ...points.map(([x]) => x)));
  const ticks = ticksTo(Math.max(1e-9, ...points.map(([, y]) => y)));
  const right = across.at(-1)!;
  const atX = (x: number): number => PLOT.left + (x / right) * (PLOT.right - PLOT.left - 8);
  const places = points.map(([x, y]) => `${fixed(atX(x))},${fixed(PLOT.base - heightOf(y, ticks.at(-1)!))}`);
  const marks = across.map((x) => svgText(atX(x), PLOT.base + 16, compact(x), 'middle'));
  return svgFrame(label, HEIGHT, `${axes(ticks, compact, names)}${marks.join('')}<polyline class="line" points="${places.join(' ')}"/>`); // biome-ignore format: one line
}

/** Points of one or several series; both axes go from 0 to 1. The diagonal marks points with x = y. */
export function shareChart(
  label: string,
  names: { x: string; y: string },
  points: readonly (readonly [number, number])[],
): string {
  // biome-ignore format: one line
  const most = Math.max(0.01, ...points.flat());
  const ticks = ticksTo(most);
  const top = ticks.at(-1)!;
  const atX = (x: number): number => PLOT.left + (x / top) * (PLOT.right - PLOT.left - 12);
  const atY = (y: number): number => PLOT.base - heightOf(y, top);
  const marks = ticks.map((x) => svgText(atX(x), PLOT.base + 16, plainPercent(x), 'middle'));
  const ideal = `<line class="mark" x1="${fixed(atX(0))}" y1="${fixed(atY(0))}" x2="${fixed(atX(top))}" y2="${fixed(atY(top))}"/>`;
  const dots = points.map(([x, y]) => `<circle class="now" cx="${fixed(atX(x))}" cy="${fixed(atY(y))}" r="4"><title>${plainPercent(x)}, ${plainPercent(y)}</title></circle>`); // biome-ignore format: one line
  const line = `<polyline class="line" points="${points.map(([x, y]) => `${fixed(atX(x))},${fixed(atY(y))}`).join(' ')}"/>`;
  return svgFrame(label, HEIGHT, `${axes(ticks, plainPercent, names)}${marks.join('')}${ideal}${line}${dots.join('')}`);
}

/** Lines over months with values from 0 to 1. The caller must leave out months without a value. */
export function monthChart(label: string, months: readonly string[], series: readonly Series[]): string {
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  const step = (PLOT.right - PLOT.left - 50) / Math.max(1, months.length - 1);
  const atX = (i: number): number => PLOT.left + 25 + i * step;
  const every = Math.max(1, Math.ceil((7 * CHARACTER + 6) / step));
  const marks = months.flatMap((month, i) => (i % every === 0 ? [svgText(atX(i), PLOT.base + 16, month, 'middle')] : [])); // biome-ignore format: one line
  const lines = series.map(({ name, style, values }) => {
    const at = values.map((value, i) => [atX(i), PLOT.base - heightOf(value, 1)] as const);
    const dots = at.map(([x, y], i) => `<circle class="${style}" cx="${fixed(x)}" cy="${fixed(y)}" r="3.5"><title>${escapeText(`${name}, ${months[i]}: ${values[i]!.toFixed(3)}`)}</title></circle>`); // biome-ignore format: one line
    return `<polyline class="trend-${style}" points="${at.map(([x, y]) => `${fixed(x)},${fixed(y)}`).join(' ')}"/>${dots.join('')}`;
  });
  return svgFrame(label, HEIGHT, `${axes(ticks, String, { x: 'month', y: '' })}${marks.join('')}${lines.join('')}`);
}

export const chartLegend = (series: readonly Pick<Series, 'name' | 'style'>[]): string =>
  `<p class="legend">${series.map(({ name, style }) => `<span class="entry"><span class="key ${style}"></span>${escapeText(name)}</span>`).join(' ')}</p>`;

/** Maximum length in characters of a first cell that is not wrapped, such as a month. */
const WHOLE_CELL = 10;

/** A table. The first row is the header; all cells except the first of each row contain numbers. */
export function htmlTable(caption: string, [head = [], ...rows]: readonly (readonly string[])[]): string {
  const cells = (row: readonly string[]) => row.map((cell, c) => (c === 0 ? `<th scope="row"${cell.length <= WHOLE_CELL ? ' class="whole"' : ''}>${breakable(cell)}</th>` : `<td${cell.length > SHORT_CELL ? ' class="long"' : ''}>${escapeText(cell)}</td>`)).join(''); // biome-ignore format: one line
  const columns = head.map((cell) => `<th scope="col">${escapeText(cell)}</th>`).join('');
  const named = caption === '' ? '' : `<caption>${escapeText(caption)}</caption>`;
  // The table can get the focus, so that it can be scrolled with the keyboard on screens that are narrower than the
  // table.
  const label = escapeText(caption === '' ? 'table' : caption);
  return `<div class="wide" tabindex="0" role="group" aria-label="${label}"><table>${named}<thead><tr>${columns}</tr></thead><tbody>${rows.map((row) => `<tr>${cells(row)}</tr>`).join('')}</tbody></table></div>`;
}

/** A list of names, each with a text such as a hash. Long texts are wrapped. */
export const factTable = (facts: readonly (readonly [name: string, text: string])[]): string =>
  `<dl class="facts">${facts.map(([name, text]) => `<dt>${escapeText(name)}</dt><dd>${escapeText(text)}</dd>`).join('')}</dl>`;

interface FactCard {
  name: string;
  value: string;
  /** A short remark about the value. */
  note: string;
  level: PageLevel;
}

/** The conclusion of a page in one line, with the reasons for it. */
export const verdictBox = (level: PageLevel, headline: string, points: readonly string[]): string =>
  `<div class="verdict ${level}"><p>${escapeText(headline)}</p>${points.length === 0 ? '' : `<ul>${points.map((point) => `<li>${escapeText(point)}</li>`).join('')}</ul>`}</div>`;

export const factCards = (cards: readonly FactCard[]): string =>
  `<dl class="cards">${cards.map(({ name, value, note, level }) => `<div class="${level}"><dt>${escapeText(name)}</dt><dd>${breakable(value)}<small>${escapeText(note)}</small></dd></div>`).join('')}</dl>`;

/** Prevents line breaks within dates. */
const wholeDates = (html: string): string =>
  html.replace(/\d{4}-\d\d-\d\d/g, (date) => `<span class="whole">${date}</span>`);

/** `parts`: HTML of the sections. `after`: HTML that follows the sections, such as embedded data. */
export function htmlPage(title: string, parts: readonly string[], after = ''): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
${styledHead(STYLE)}
<title>${escapeText(title)}</title></head><body><main>
<h1>${wholeDates(escapeText(title))}</h1>
${parts.filter((part) => part !== '').join('\n')}
</main>${after}</body></html>
`;
}

const STYLE = `:root{color-scheme:light dark;--paper:#fff;--ink:#1c2430;--soft:#566273;--line:#d5dce5;--card:#f4f6f9;--now:#2a78b8;--before:#b97f1c;--training:#94a1b2;--bad:#b3261e;--warn:#8a5a00;--good:#1f7a3d;--up:#2a78b8;--down:#c2562d}
@media(prefers-color-scheme:dark){:root{--paper:#14181f;--ink:#e6eaf0;--soft:#a3afbe;--line:#38424f;--card:#1d232c;--now:#4f9fdd;--before:#d9a441;--training:#7d8998;--bad:#ff8a80;--warn:#f0c060;--good:#7bd69b;--up:#4f9fdd;--down:#e8845c}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;margin:0;color:var(--ink);background:var(--paper)}main{max-width:60rem;margin:1.5rem auto;padding:0 1rem}
h1{font-size:1.2rem;line-height:1.3;overflow-wrap:anywhere}h2,.whole{overflow-wrap:normal}.whole{white-space:nowrap}h2{font-size:1.1rem;margin:1.8rem 0 .4rem}p,li{overflow-wrap:anywhere}
svg{display:block;width:100%;max-width:40rem;height:auto;font-size:12.5px;margin:.4rem 0}text{fill:var(--soft)}text.strong{fill:var(--ink);font-weight:600}@media(min-width:700px){svg{font-size:8.4px}}@media print{svg{font-size:8.4px}}
.grid{stroke:var(--line);stroke-width:.7}.mark{stroke:var(--ink);stroke-width:1.4;stroke-dasharray:3 2}.trend-now,.trend-before{fill:none;stroke:var(--now);stroke-width:1.6}.trend-before{stroke:var(--before)}.level{stroke:var(--ink);stroke-width:2.4}.line{fill:none;stroke:var(--now);stroke-width:1.6}
.wide{overflow-x:auto;max-width:100%}.whole{white-space:nowrap}table{border-collapse:collapse;width:100%}caption{text-align:left;color:var(--soft)}td,th{padding:.25rem .7rem .25rem 0;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}thead th{color:var(--soft);font-weight:500;vertical-align:bottom}
th:first-child{text-align:left;font-weight:500}td{font-variant-numeric:tabular-nums;white-space:nowrap}td.long{white-space:normal;min-width:12rem}td.text,th.text{text-align:left}
.verdict{border-left:.4rem solid var(--soft);background:var(--card);padding:.7rem 1rem;margin:.8rem 0}.verdict p{margin:0;font-size:1.25rem;font-weight:650;line-height:1.3}.verdict ul{margin:.4rem 0 0;padding-left:1.1rem}
.verdict.good{border-color:var(--good)}.verdict.warn{border-color:var(--warn)}.verdict.bad{border-color:var(--bad)}.verdict.good p,.good dd,b.good{color:var(--good)}.verdict.warn p,.warn dd,b.warn{color:var(--warn)}.verdict.bad p,.bad dd,b.bad{color:var(--bad)}
.cards{display:grid;grid-template-columns:repeat(2,1fr);gap:.6rem;margin:.8rem 0}@media(min-width:40rem){.cards{grid-template-columns:repeat(3,1fr)}}@media(max-width:40rem){table{font-size:13px}}.cards>div{background:var(--card);padding:.5rem .8rem;min-width:0}.cards dt{color:var(--soft);font-size:.87rem}.cards dd{margin:0;font-size:1.15rem;font-weight:600;overflow-wrap:anywhere}.cards small{display:block;font-size:.83rem;font-weight:400;color:var(--soft)}
.now{fill:var(--now);background:var(--now)}.before{fill:var(--before);background:var(--before)}.training{fill:var(--training);background:var(--training)}.up{fill:var(--up);background:var(--up)}.down{fill:var(--down);background:var(--down)}rect.good{fill:var(--good)}rect.warn{fill:var(--warn)}rect.bad{fill:var(--bad)}rect.none{fill:var(--training)}
.legend{margin:.3rem 0}.entry{white-space:nowrap;margin-right:1rem}.key{display:inline-block;width:.8em;height:.8em;margin-right:.35em}
dl.facts{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.2rem 1rem;margin:.4rem 0}.facts dt{color:var(--soft)}.facts dd{margin:0;overflow-wrap:anywhere}@media(max-width:32rem){dl.facts{display:block}.facts dt{margin-top:.4rem;font-size:.87rem}}
summary{cursor:pointer;color:var(--soft)}.note{color:var(--soft)}
@media print{@page{size:A4;margin:14mm}main{max-width:none;margin:0;padding:0}section,svg,.verdict{break-inside:avoid}.wide{overflow:visible}}`;
