// The waterfall as a self-contained HTML page that can be filed, mailed and printed.
import { styledHead } from '../../core/html-policy.ts';
import type { ExplainedRow } from '../../runs/checks/explain-row.ts';
import { headline, number, stepsOf } from './waterfall.ts';

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const ROW = 26;
const LEFT = 330;
const WIDTH = 960;

export function waterfallPage(ref: string, answer: ExplainedRow, top: number): string {
  const x = answer.interpretation;
  const title = `${ref}, row ${answer.row}`;
  if (!x || x.error) return page(title, `<p>${escapeHtml(x?.error?.message ?? 'no interpretation')}</p>`);
  const steps = stepsOf(answer, top);
  const total = steps.at(-1)?.to ?? x.base;
  const ends = [x.base, total, ...steps.map((s) => s.to)];
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const at = (v: number) => LEFT + ((v - low) / (high - low || 1)) * (WIDTH - LEFT - 90);
  const line = (v: number, y: number, label: string) =>
    `<text x="${LEFT - 12}" y="${y + 17}" text-anchor="end" class="b">${escapeHtml(label)}</text>` +
    `<line x1="${at(v).toFixed(1)}" x2="${at(v).toFixed(1)}" y1="${y + 3}" y2="${y + ROW - 3}" class="m"/>` +
    `<text x="${(at(v) + 6).toFixed(1)}" y="${y + 17}" class="n">${v.toFixed(4)}</text>`;
  const bars = steps.map((s, i) => {
    const y = (i + 1) * ROW;
    const [a, b] = [Math.min(at(s.from), at(s.to)), Math.max(at(s.from), at(s.to))];
    return (
      `<text x="${LEFT - 12}" y="${y + 17}" text-anchor="end">${escapeHtml(s.label)}</text>` +
      `<rect x="${a.toFixed(1)}" y="${y + 4}" width="${Math.max(1, b - a).toFixed(1)}" height="${ROW - 8}" class="${s.effect >= 0 ? 'up' : 'down'}"><title>${escapeHtml(s.label)}: ${s.effect}</title></rect>` +
      `<text x="${(b + 6).toFixed(1)}" y="${y + 17}" class="n">${number(s.effect)}</text>`
    );
  });
  const height = (steps.length + 2) * ROW;
  const reasons = (x.reasons ?? []).map((r) => `<li><b>${escapeHtml(r.code)}</b> ${escapeHtml(r.text)}</li>`).join('');
  const rows = x.effects
    .map(
      (e) =>
        `<tr><td>${escapeHtml(e.column)}</td><td>${escapeHtml(e.value === null ? '(missing)' : String(e.value))}</td><td class="r">${e.effect}</td></tr>`,
    )
    .join('');
  return page(
    title,
    `<p class="h">${escapeHtml(headline(answer))}</p>
<p>Effects in ${escapeHtml(x.space)} (${escapeHtml(x.method)}); base and effects add up to the score.</p>
<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="waterfall of effects">${line(x.base, 0, 'base')}${bars.join('')}${line(total, (steps.length + 1) * ROW, 'score')}</svg>
${reasons === '' ? '' : `<h2>Reasons</h2><ol>${reasons}</ol>`}
<details><summary>All effects</summary><table><tr><th>column</th><th>value</th><th>effect</th></tr>${rows}</table></details>`,
  );
}

const STYLE = `
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1c2430;background:#fff}
svg{width:100%;height:auto;font-size:13px}text{fill:#1c2430}.n{fill:#5a6675}.b{font-weight:600}.m{stroke:#1c2430;stroke-width:2}
.up{fill:#2a78b8}.down{fill:#c2562d}.h{font-size:1.3rem;font-weight:600}table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left}.r{text-align:right;font-variant-numeric:tabular-nums}
@media(prefers-color-scheme:dark){body{background:#14181f;color:#e6eaf0}text{fill:#e6eaf0}.n{fill:#9aa6b5}.m{stroke:#e6eaf0}}
`;

const page = (title: string, body: string): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8">${styledHead(STYLE)}
<title>${escapeHtml(title)}</title></head><body>
<h1>${escapeHtml(title)}</h1>
${body}
</body></html>
`;
