// The frame of self-contained HTML pages (one file without scripts, which can be filed, mailed and printed), and charts as inline SVG.
import { styledHead } from '../core/html-policy.ts';

// Each chart is accompanied by a table with the same numbers.

export const escapeText = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const WIDTH = 720;
const HEIGHT = 220;
const BASE = 190;

export interface Series {
  name: string;
  /** Name of the style: `now`, `training`, `before`. */
  style: string;
  values: readonly number[];
}

const frame = (label: string, body: string): string =>
  `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeText(label)}">${body}</svg>`;

/** A chart with a group of bars per label. Values must not be negative. */
export function barChart(label: string, labels: readonly string[], series: readonly Series[]): string {
  const most = Math.max(1e-9, ...series.flatMap(({ values }) => values));
  const step = WIDTH / Math.max(1, labels.length);
  const wide = (step * 0.8) / Math.max(1, series.length);
  const bars = series.flatMap(({ name, style, values }, s) =>
    values.map((value, k) => {
      const height = (value / most) * (BASE - 20);
      const x = k * step + step * 0.1 + s * wide;
      const title = `${name}, ${labels[k]}: ${(100 * value).toFixed(1)} %`;
      return `<rect class="${style}" x="${x.toFixed(1)}" y="${(BASE - height).toFixed(1)}" width="${wide.toFixed(1)}" height="${height.toFixed(1)}"><title>${escapeText(title)}</title></rect>`;
    }),
  );
  const names = labels.map(
    (text, k) =>
      `<text x="${((k + 0.5) * step).toFixed(1)}" y="${BASE + 18}" text-anchor="middle">${escapeText(text)}</text>`,
  );
  return frame(label, bars.join('') + names.join(''));
}

/** A line through points in ascending order of x; both axes start at 0. */
export function lineChart(label: string, points: readonly (readonly [number, number])[]): string {
  const right = Math.max(1e-9, ...points.map(([x]) => x));
  const top = Math.max(1e-9, ...points.map(([, y]) => y));
  const places = points.map(
    ([x, y]) => `${((x / right) * WIDTH).toFixed(1)},${(BASE - (y / top) * (BASE - 20)).toFixed(1)}`,
  );
  return frame(label, `<polyline class="line" points="${places.join(' ')}"/>`);
}

/** The first row is the header; all cells except the first contain numbers. */
export function htmlTable(caption: string, [head = [], ...rows]: readonly (readonly string[])[]): string {
  const cells = (row: readonly string[]) => row.map((cell, c) => (c === 0 ? `<th scope="row">${escapeText(cell)}</th>` : `<td>${escapeText(cell)}</td>`)).join(''); // biome-ignore format: one line
  const columns = head.map((cell) => `<th scope="col">${escapeText(cell)}</th>`).join('');
  return `<div class="wide"><table><caption>${escapeText(caption)}</caption><thead><tr>${columns}</tr></thead><tbody>${rows.map((row) => `<tr>${cells(row)}</tr>`).join('')}</tbody></table></div>`;
}

/** `parts`: HTML of the sections; `after`: HTML after the sections, such as embedded data. */
export function htmlPage(title: string, parts: readonly string[], after = ''): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
${styledHead(STYLE)}
<title>${escapeText(title)}</title></head><body><main>
<h1>${escapeText(title)}</h1>
${parts.filter((part) => part !== '').join('\n')}
</main>${after}</body></html>
`;
}

const STYLE = `:root{color-scheme:light dark;--ink:#1c2430;--soft:#5a6675;--line:#cdd5df;--now:#2a78b8;--before:#c28a2d;--training:#9aa6b5;--bad:#b3261e;--good:#1f7a3d}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa6b5;--line:#38424f;--bad:#ff8a80;--good:#7bd69b}body{background:#14181f}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;margin:0;color:var(--ink)}main{max-width:60rem;margin:1.5rem auto;padding:0 1rem}
h1{font-size:1.3rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:1.6rem 0 .4rem}svg{width:100%;height:auto;font-size:12px}text{fill:var(--soft)}
.wide{overflow-x:auto;max-width:100%}table{border-collapse:collapse;width:100%}caption{text-align:left;color:var(--soft)}td,th{padding:.2rem .6rem .2rem 0;text-align:right;border-bottom:1px solid var(--line);overflow-wrap:anywhere;vertical-align:top}
th:first-child{text-align:left;font-weight:500}td{font-variant-numeric:tabular-nums}.bad{color:var(--bad);font-weight:600}.good{color:var(--good);font-weight:600}
.now{fill:var(--now);background:var(--now)}.before{fill:var(--before);background:var(--before)}.training{fill:var(--training);background:var(--training)}.line{fill:none;stroke:var(--now);stroke-width:2}.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .8em}
.facts td{text-align:left;font-variant-numeric:normal}
@media print{@page{size:A4;margin:14mm}main{max-width:none;margin:0;padding:0}section,svg{break-inside:avoid}.wide{overflow:visible}}`;
