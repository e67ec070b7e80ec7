// Charts of a report as inline SVG, without scripts. Each has a table beside it that says the same.

export const escapeText = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const WIDTH = 720;
const HEIGHT = 220;
const BASE = 190;

export interface Series {
  name: string;
  /** Of the style: `now`, `training`, `before`. */
  style: string;
  values: readonly number[];
}

const frame = (label: string, body: string): string =>
  `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeText(label)}">${body}</svg>`;

/** Groups of bars, one a label. Values from 0 on. */
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

/** A line through points of ascending x; both axes begin at 0. */
export function lineChart(label: string, points: readonly (readonly [number, number])[]): string {
  const right = Math.max(1e-9, ...points.map(([x]) => x));
  const top = Math.max(1e-9, ...points.map(([, y]) => y));
  const places = points.map(
    ([x, y]) => `${((x / right) * WIDTH).toFixed(1)},${(BASE - (y / top) * (BASE - 20)).toFixed(1)}`,
  );
  return frame(label, `<polyline class="line" points="${places.join(' ')}"/>`);
}

/** The first row is the head; cells beside the first one are numbers. */
export function htmlTable(caption: string, [head = [], ...rows]: readonly (readonly string[])[]): string {
  const cells = (row: readonly string[]) => row.map((cell, c) => (c === 0 ? `<th scope="row">${escapeText(cell)}</th>` : `<td>${escapeText(cell)}</td>`)).join(''); // biome-ignore format: one line
  const columns = head.map((cell) => `<th scope="col">${escapeText(cell)}</th>`).join('');
  return `<div class="wide"><table><caption>${escapeText(caption)}</caption><thead><tr>${columns}</tr></thead><tbody>${rows.map((row) => `<tr>${cells(row)}</tr>`).join('')}</tbody></table></div>`;
}
