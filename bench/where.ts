// Where the CPU time of a run goes: samples of all its threads by `perf`, assigned to phases by the functions on the stack.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { sluice } from './contenders.ts';
import { CACHE, NODE, type Program } from './prepare.ts';
import { folder, measure, median, run, say, warn } from './run.ts';

/** In the order of the table. */
const PHASES = [
  'start',
  'read and find records',
  'decode',
  'encode',
  'evaluate',
  'format',
  'hash',
  'drift',
  'write',
  'hand-over',
  'compile and collect garbage',
  'other',
] as const;
type Phase = (typeof PHASES)[number];

export interface WhereResult {
  rows: number;
  rounds: number;
  load: number;
  tables: { title: string; cpuSeconds: number; seconds: number; idleSeconds: number; shares: Record<Phase, number> }[];
}

/** Folders of src by phase; the first that matches counts. */
const FOLDERS: readonly (readonly [RegExp, Phase])[] = [
  [/^inference\/(?:evaluate|trees)\//, 'evaluate'],
  [/^inference\/encode\/encoder/, 'encode'],
  [/^formats\/write\/|formatter/, 'format'],
  [/^proof\//, 'hash'],
  [/^drift\//, 'drift'],
  [/^io\/sink\//, 'write'],
  [/^io\/source\//, 'read and find records'],
  [/^(?:formats|inference\/encode)\//, 'decode'],
  [/^(?:engine|runs)\//, 'hand-over'],
];
/** Functions of kernels, and of Node, by phase. */
const FUNCTIONS: readonly (readonly [RegExp, Phase])[] = [
  [/sha256|^JS:.*\bupdate node:internal\/crypto\/hash/, 'hash'],
  [/^JS:rows-/, 'decode'],
  [/^JS:(?:lines|elements)-/, 'read and find records'],
  [/^JS:(?:rank|tile\w*|pass\d*|combine|walk\w*)-/, 'evaluate'],
  [/^JS:answers-/, 'format'],
  [/^JS:sketch-/, 'drift'],
];

export interface WhereSetting {
  program: Program;
  model: string;
  /** Files of the same rows. */
  inputs: readonly { title: string; file: string }[];
  rows: number;
  rounds: number;
  cores: number;
}

/** null: this machine has no usable `perf`. @throws Error when a run fails */
export async function benchWhere({
  program,
  model,
  inputs,
  rows,
  rounds,
  cores,
}: WhereSetting): Promise<WhereResult | null> {
  const scratch = mkdtempSync(path.join(tmpdir(), 'sluice-where-'));
  try {
    const data = path.join(scratch, 'perf.data');
    if (spawnSync('perf', ['record', '-o', data, 'true']).status !== 0) {
      warn('no usable perf: where the time goes is not measured');
      return null;
    }
    const positions = new Positions(program.folder);
    const tables: WhereResult['tables'] = [];
    const own = sluice(program, 'where', '', ['--workers', String(cores)]);
    for (const { title, file } of inputs) {
      const output = path.join(folder(CACHE, 'outputs'), 'where.ndjson');
      const [node, ...args] = own.command({ model }, file, output).args as [string, ...string[]];
      const found: Record<Phase, number>[] = [];
      const usages = [];
      for (let round = 0; round < rounds; round++) {
        usages.push(await measure({ args: [node, ...args] }));
        await run({
          args: ['perf', 'record', '-g', '-F', '2500', '-o', data, NODE, '--perf-basic-prof', ...args],
          cwd: scratch,
        });
        const script = spawnSync('perf', ['script', '-i', data, '-F', 'comm,tid,time,ip,sym'], { encoding: 'utf8', maxBuffer: 2 ** 31 - 1 }); // biome-ignore format: one line
        found.push(sharesOf(script.stdout, positions));
        say(`round ${round + 1}/${rounds}  where, ${title}`);
      }
      const cpuSeconds = median(usages.map((u) => u.userSeconds + u.systemSeconds));
      const seconds = median(usages.map((u) => u.seconds));
      const shares = Object.fromEntries(PHASES.map((p) => [p, median(found.map((f) => f[p]))])) as Record<
        Phase,
        number
      >;
      tables.push({ title, cpuSeconds, seconds, idleSeconds: Math.max(0, seconds * cores - cpuSeconds), shares });
    }
    return { rows, rounds, load: loadavg()[0]!, tables };
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

/** Shares of the samples by phase. Before its first row, all work of a thread is `start`. */
function sharesOf(script: string, positions: Positions): Record<Phase, number> {
  const counts = Object.fromEntries(PHASES.map((phase) => [phase, 0])) as Record<Phase, number>;
  const working = new Set<string>();
  let samples = 0;
  for (const sample of script.split('\n\n')) {
    const [head = '', ...frames] = sample.trim().split('\n');
    const who = /^(.+?)\s+(\d+)\s+[\d.]+:/.exec(head);
    if (!who) continue;
    const [, name, thread] = who as unknown as [string, string, string];
    const functions = frames.map((frame) => frame.trim().replace(/^[0-9a-f]+ /, ''));
    let phase = phaseOf(functions, positions);
    if (name.startsWith('V8Worker')) phase = 'compile and collect garbage';
    else if (name.startsWith('libuv'))
      phase = functions.some((f) => /write|fsync/i.test(f)) ? 'write' : 'read and find records';
    else if (phase === 'decode' || phase === 'evaluate') working.add(thread);
    else if (!working.has(thread) && phase !== 'hash' && phase !== 'read and find records') phase = 'start';
    counts[phase]++;
    samples++;
  }
  return Object.fromEntries(PHASES.map((phase) => [phase, counts[phase] / samples])) as Record<Phase, number>;
}

/** The phase of the innermost function that belongs to one. */
function phaseOf(functions: readonly string[], positions: Positions): Phase {
  for (const f of functions) {
    const named = FUNCTIONS.find(([pattern]) => pattern.test(f));
    if (named) return named[1];
    if (/ScavengeObject|MarkCompact|Heap::(?:Collect|Perform|Scavenge)/.test(f)) return 'compile and collect garbage';
    const source = positions.sourceOf(f);
    const by = source === null ? undefined : FOLDERS.find(([pattern]) => pattern.test(source));
    if (by) return by[1];
  }
  return 'other';
}

/** Source files of functions in the built program, whose files are joined. */
class Positions {
  readonly #dist: string;
  readonly #maps = new Map<string, SourceMap | null>();
  readonly #known = new Map<string, string | null>();

  constructor(dist: string) {
    this.#dist = dist;
  }

  /** Path in src of a symbol such as `JS:*name file:///…/parts/worker.js:10:5`; null: none. */
  sourceOf(symbol: string): string | null {
    if (!symbol.startsWith('JS:')) return null;
    let source = this.#known.get(symbol);
    if (source === undefined) {
      source = this.#find(symbol);
      this.#known.set(symbol, source);
    }
    return source;
  }

  #find(symbol: string): string | null {
    const found = /file:\/\/(\S+\.js):(\d+):(\d+)/.exec(symbol);
    if (!found || !found[1]!.startsWith(this.#dist)) return null;
    const [, file, line, column] = found as unknown as [string, string, string, string];
    let map = this.#maps.get(file);
    if (map === undefined) {
      map = existsSync(`${file}.map`) ? new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8'))) : null;
      this.#maps.set(file, map);
    }
    const entry = map?.findEntry(Number(line) - 1, Number(column) - 1);
    return entry && 'originalSource' in entry ? (/\bsrc\/(.+)$/.exec(entry.originalSource)?.[1] ?? null) : null;
  }
}
