// The frame of every page that can be filed, mailed and printed: one file with nothing to load and no script that runs.
import { styledHead } from '../core/html-policy.ts';
import { escapeText } from './charts.ts';

/** `parts`: HTML of the sections; `after`: what stands behind them, such as data that is embedded. */
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
