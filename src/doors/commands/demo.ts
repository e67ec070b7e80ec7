// `sluice demo`: runs the bundled model on synthetic data and prints an excerpt of the output.
import { createReadStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { count } from '../../monitor/progress.ts';
import { addFlags } from './flags/command-spec.ts';
import { type DemoFlags, SCORE_COMMANDS } from './flags/score-flags.ts';
import { generate } from './generate.ts';
import { score } from './score.ts';

export function addDemoCommand(program: Command): void {
  addFlags(program.command('demo'), SCORE_COMMANDS.demo).action(demo);
}

async function demo({ rows, folder }: DemoFlags): Promise<void> {
  await mkdir(folder, { recursive: true });
  const portfolio = path.join(folder, 'portfolio.csv');
  const scored = path.join(folder, 'scored.csv');
  const faults = Math.min(10, Math.floor(rows / 2));
  const rejects = path.join(folder, 'rejected.csv');
  say(`\n1. ${count(rows)} applications, ${faults} of them broken → ${portfolio}`);
  await generate({ rows, seed: 7, output: portfolio, faults, ids: true, oddness: 'light' });
  say(
    `\n2. sluice score ${portfolio} --model credit-default --passthrough application_id -o ${scored} --rejects ${rejects}\n`,
  );
  await score(portfolio, {
    model: 'credit-default',
    output: scored,
    rejects,
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
  for await (const line of lines(rejects)) say(`   ${line}`);
  say(`\nThe files are in ${path.resolve(folder)}: portfolio.csv, scored.csv, rejected.csv`);
}

/** Parses the output of the demo, in which no field is quoted and only the passthrough id precedes the numbers. */
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
