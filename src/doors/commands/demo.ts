// `sluice demo`: a whole run on a real file with the bundled model, and a look at what came out.
import { createReadStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { count } from '../../monitor/progress.ts';
import { generate } from './generate.ts';
import { score } from './score.ts';
import { wholeNumber } from './whole-number.ts';

export function addDemoCommand(program: Command): void {
  program
    .command('demo')
    .description('generate a portfolio, score it with the bundled model, show what came out')
    .option('--rows <n>', 'applications', wholeNumber('rows', 1, 1e9), 50_000)
    .option('--folder <path>', 'where the files go', 'demo')
    .action((options: { rows: number; folder: string }) => demo(options));
}

async function demo({ rows, folder }: { rows: number; folder: string }): Promise<void> {
  await mkdir(folder, { recursive: true });
  const portfolio = path.join(folder, 'portfolio.csv');
  const scored = path.join(folder, 'scored.csv');
  say(`\n1. ${count(rows)} applications, ten of them broken → ${portfolio}`);
  await generate({ rows, seed: 7, output: portfolio, faults: Math.min(10, rows), ids: true });
  say(`\n2. sluice score ${portfolio} --model credit-default --passthrough application_id -o ${scored}\n`);
  await score(portfolio, {
    model: 'credit-default',
    output: scored,
    passthrough: 'application_id',
    onInvalid: 'report',
  });
  const { head, bins, decisions } = await readScored(scored);
  say(`\n3. The first rows of ${scored}\n`);
  for (const line of head) say(`   ${line}`);
  say('\n4. How the probabilities of repayment are distributed\n');
  const most = Math.max(1, ...bins);
  bins.forEach((n, i) => {
    say(
      `   ${(i / 10).toFixed(1)}–${((i + 1) / 10).toFixed(1)} ${'█'.repeat(Math.round((n / most) * 50)).padEnd(50)} ${count(n)}`,
    );
  });
  say(`\n   ${[...decisions].map(([name, n]) => `${name} ${count(n)}`).join(', ')}`);
  say('\n5. The rows that could not be scored\n');
  for await (const line of lines(`${scored}.rejects.csv`)) say(`   ${line}`);
  say(`\nThe files are in ${path.resolve(folder)}: portfolio.csv, scored.csv, scored.csv.rejects.csv`);
}

/** Reads the demo's own output: no field of it but the passthrough id precedes the numbers, and none is quoted. */
async function readScored(file: string): Promise<{ head: string[]; bins: number[]; decisions: Map<string, number> }> {
  const head: string[] = [];
  const bins = new Array<number>(10).fill(0);
  const decisions = new Map<string, number>();
  let columns: string[] = [];
  for await (const line of lines(file)) {
    if (head.length < 6) head.push(line);
    const fields = line.split(',');
    if (columns.length === 0) {
      columns = fields;
      continue;
    }
    const p = fields[columns.indexOf('probability')];
    if (p === undefined || p === '') continue;
    bins[Math.min(9, Math.floor(Number(p) * 10))]!++;
    const decision = fields[columns.indexOf('decision')] ?? '';
    decisions.set(decision, (decisions.get(decision) ?? 0) + 1);
  }
  return { head, bins, decisions };
}

const lines = (file: string): AsyncIterable<string> =>
  createInterface({ input: createReadStream(file), crlfDelay: Infinity });
const say = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
