// The wall seconds of all contenders as bars, drawn by hand as SVG.
import type { ScoreResult } from './score.ts';

const WIDTH = 860;
const LABELS = 230;
const BAR = 20;
const GAP = 5;
const HEAD = 40;

const xml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** A block a model; bars are medians, thin lines reach from the fastest to the slowest run. */
export function plot(result: ScoreResult): string {
  const parts: string[] = [];
  let y = 34;
  for (const m of result.models) {
    const bars = [
      ...m.contenders.map((c) => ({
        name: c.name,
        ...c.seconds,
        kind: c.name.startsWith('sluice') ? 'ours' : 'theirs',
      })),
      ...(m.ideal ? [{ name: 'ideal: floats ready', ...m.ideal.seconds, kind: 'ideal' }] : []),
    ];
    const longest = Math.max(...bars.map((b) => b.max));
    const x = (seconds: number): number => LABELS + (seconds / longest) * (WIDTH - LABELS - 70);
    parts.push(`<text class="title" x="10" y="${y + 16}">${xml(m.name)}</text>`);
    y += HEAD - 14;
    for (const b of bars) {
      const middle = y + BAR / 2;
      parts.push(
        `<text x="${LABELS - 8}" y="${middle + 4}" text-anchor="end">${xml(b.name)}</text>`,
        `<rect class="${b.kind}" x="${LABELS}" y="${y}" width="${(x(b.median) - LABELS).toFixed(1)}" height="${BAR}"/>`,
        `<line x1="${x(b.min).toFixed(1)}" x2="${x(b.max).toFixed(1)}" y1="${middle}" y2="${middle}"/>`,
        `<text x="${(Math.max(x(b.median), x(b.max)) + 6).toFixed(1)}" y="${middle + 4}">${b.median.toFixed(2)} s</text>`,
      );
      y += BAR + GAP;
    }
    y += 22;
  }
  const title = `${result.rows.toLocaleString('en')} rows, CSV file to NDJSON file, wall seconds (median of ${result.rounds})`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" role="img">
<title>${title}</title>
<style>
  text { font: 13px system-ui, sans-serif; fill: #222 }
  .title { font-weight: 600 }
  .ours { fill: #1f6feb } .theirs { fill: #a8b3c1 } .ideal { fill: #8fd19e }
  line { stroke: #444; stroke-width: 1.5 }
</style>
<rect width="${WIDTH}" height="${y}" fill="#fff"/>
<text class="title" x="10" y="22">${title}</text>
${parts.join('\n')}
</svg>
`;
}
