// `npm run lint:prose`: idioms per area against a budget that may only decrease. `--list [PATH]` prints them.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { findIdioms, proseFiles } from './idioms.ts';

const BUDGET = path.join(import.meta.dirname, 'budget.json');
const area = (file: string): string => (file.startsWith('src/') ? 'comments of src' : 'pages');

const found = proseFiles().flatMap((file) => findIdioms(file));
const list = process.argv.indexOf('--list');
if (list > 0) {
  const under = process.argv[list + 1] ?? '';
  for (const { file, line, idiom, text } of found.filter((f) => f.file.startsWith(under))) {
    process.stdout.write(`${file}:${line} ${idiom}: ${text}\n`);
  }
} else {
  const counts: Record<string, number> = { 'comments of src': 0, pages: 0 };
  for (const { file } of found) counts[area(file)]!++;
  const budget = JSON.parse(readFileSync(BUDGET, 'utf8')) as Record<string, number>;
  if (process.argv.includes('--save')) {
    const lower = Object.fromEntries(Object.entries(counts).map(([name, n]) => [name, Math.min(n, budget[name] ?? n)]));
    writeFileSync(BUDGET, `${JSON.stringify(lower, null, 2)}\n`);
  }
  for (const [name, n] of Object.entries(counts)) {
    const most = budget[name] ?? 0;
    process.stdout.write(`${name}: ${n} idioms of at most ${most}\n`);
    if (n > most) process.exitCode = 1;
  }
  if (process.exitCode === 1) {
    process.stdout.write('Rewrite the new sentences in plain English: `npm run lint:prose -- --list src/runs`\n');
  }
}
