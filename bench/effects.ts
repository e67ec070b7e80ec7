// Effects and interactions against woodelf-explainer, in pairs: whole CPU seconds, preparation included, on the same model,
// applications and background.
import path from 'node:path';
import type { Explained } from './explainer.ts';
import { openModel } from './models.ts';
import { inPairs } from './pairs.ts';
import { type DEEP, MODELS, NODE, nameOf, PEERS, withLargeBackground } from './prepare.ts';
import { countLines, head } from './rows.ts';
import { ONE_THREAD, run, type Spread, say, spread } from './run.ts';

/** Seconds of CPU, and woodelf ÷ sluice within each pair. */
export interface EffectPairs {
  model: string;
  what: 'effects' | 'interactions';
  rows: number;
  backgroundRows: number;
  /** Rows a call of the explainer. */
  batchRows: number;
  sluice: Spread;
  woodelf: Spread;
  ratio: Spread;
  /** Largest difference of what they found. */
  difference: number;
}

interface Case {
  /** In the registry; `files` names the same model among those of the libraries. */
  reference: string;
  files: keyof typeof DEEP;
  rows: number;
  batchRows: number;
  what: EffectPairs['what'];
}

/** woodelf adds up in single precision, over as many leaves as the model has. */
const TOLERANCE = 1e-4;
const DEFAULT_BATCH = 512;
const LARGE_BATCH = 4096;
const NO_LIMIT = '100000';

function casesOf(quick: boolean): Case[] {
  const of = (files: keyof typeof DEEP, rows: number, batchRows = DEFAULT_BATCH): Case => {
    return { reference: files, files, rows, batchRows, what: 'effects' };
  };
  const flat = ['bench-lightgbm-depth-6', 'bench-lightgbm-depth-15'] as const;
  const sizes = quick ? [1000] : [1000, 50_000, 500_000];
  const deep = quick
    ? [of('bench-lightgbm-255', 1000)]
    : [of('bench-lightgbm-255', 1000), of('bench-lightgbm-255', 5000)];
  const long = [of('bench-lightgbm-255', 50_000), of('bench-lightgbm-255', 50_000, LARGE_BATCH)];
  const [, fifteen] = flat;
  const large = { ...of(fifteen, quick ? 1000 : 50_000), reference: withLargeBackground(fifteen) };
  const pairs: Case = { ...of(fifteen, quick ? 200 : 5000), what: 'interactions' };
  return [...flat.flatMap((m) => sizes.map((rows) => of(m, rows))), ...deep, ...(quick ? [] : long), large, pairs];
}

export async function benchEffects(
  python: string,
  input: string,
  rounds: number,
  quick: boolean,
): Promise<EffectPairs[]> {
  const results: EffectPairs[] = [];
  for (const one of casesOf(quick)) {
    const { reference, rows, batchRows, what } = one;
    const file = await head(input, rows);
    const { folder, manifest } = await openModel(reference);
    const background = path.join(folder, manifest.explain!.background!);
    const commands = commandsOf(one, python, file, background);
    const pairs = await inPairs(commands, rounds, async (args) => {
      const text = await run({ args, env: ONE_THREAD });
      return JSON.parse(text.slice(text.indexOf('{"'))) as Explained;
    });
    const [a, b] = pairs[0]!;
    const difference =
      what === 'effects' ? furthest(a.effects, b.effects) : furthest(a.effects, inOrder(b, a.columns!));
    if (!(difference <= TOLERANCE))
      throw new Error(`${reference}: ${what} differ from those of woodelf by ${difference}`);
    const of = (value: (pair: (typeof pairs)[number]) => number): Spread => spread(pairs.map(value));
    const ratio = of(([s, w]) => w.cpuSeconds / s.cpuSeconds);
    say(`${nameOf(one.files)}  ${rows} rows, ${what}: woodelf ÷ sluice ${ratio.median.toFixed(2)}`);
    results.push({
      model: nameOf(one.files),
      what,
      rows,
      backgroundRows: await countLines(background),
      batchRows,
      sluice: of(([s]) => s.cpuSeconds),
      woodelf: of(([, w]) => w.cpuSeconds),
      ratio,
      difference,
    });
  }
  return results;
}

function commandsOf(
  { reference, files, rows, batchRows, what }: Case,
  python: string,
  file: string,
  background: string,
): [string[], string[]] {
  const script = path.join(import.meta.dirname, 'explainer.ts');
  const own = [NODE, script, reference, file, String(rows), NO_LIMIT, String(batchRows)];
  const same = [
    '--model',
    files,
    '--models',
    MODELS,
    '--rows',
    file,
    '--count',
    String(rows),
    '--background',
    background,
  ];
  const peer = [python, '-W', 'ignore', PEERS, 'woodelf', ...same];
  return what === 'effects'
    ? [own, peer]
    : [
        [...own, what],
        [...peer, '--interactions'],
      ];
}

/** Interactions of woodelf, a half of an index each, in the order of other columns. */
function inOrder({ effects, columns }: Explained, wanted: readonly string[]): number[][] {
  const at = new Map<string, number>();
  let n = 0;
  for (const [i, c] of columns!.entries())
    for (const d of columns!.slice(i + 1)) {
      at.set(`${c} ${d}`, n);
      at.set(`${d} ${c}`, n++);
    }
  const order = wanted.flatMap((c, i) => wanted.slice(i + 1).map((d) => at.get(`${c} ${d}`)!));
  return effects.map((row) => order.map((k) => 2 * row[k]!));
}

function furthest(a: readonly (readonly number[])[], b: readonly (readonly number[])[]): number {
  if (a.length !== b.length || a.length === 0) return Number.NaN;
  let largest = 0;
  for (const [r, row] of a.entries())
    for (const [i, x] of row.entries()) largest = Math.max(largest, Math.abs(x - b[r]![i]!));
  return largest;
}
