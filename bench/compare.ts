// `npm run bench -- --compare BASE`: this checkout against another commit, both in turn, as ratios.
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { sluice } from './contenders.ts';
import { applications, build, CACHE, type Program, ROOT } from './prepare.ts';
import { folder, measure, run, say, spread, type Usage } from './run.ts';
import { distances, readSample, TOLERANCE } from './verify.ts';

export interface CompareSetting {
  program: Program;
  models: readonly string[];
  rows: number;
  rounds: number;
  cores: number;
}

/** Prints ratios (this checkout ÷ base; below 1 is faster) of pairs of runs. @throws Error when scores differ */
export async function compareWith(base: string, setting: CompareSetting): Promise<void> {
  const { models, rows, rounds, cores } = setting;
  const parent = mkdtempSync(path.join(tmpdir(), 'sluice-base-'));
  const tree = path.join(parent, 'tree');
  const commit = (await run({ args: ['git', 'rev-parse', '--short', `${base}^{commit}`], cwd: ROOT })).trim();
  await run({ args: ['git', 'worktree', 'add', '--detach', tree, commit], cwd: ROOT });
  try {
    await dependencies(tree);
    const input = await applications(setting.program, rows);
    const workers = ['--workers', String(cores)];
    const here = sluice(setting.program, 'here', 'this checkout', workers);
    const there = sluice(await build(tree), 'base', commit, workers);
    const outputs = folder(CACHE, 'outputs');
    for (const model of models) {
      const pairs: [Usage, Usage][] = [];
      for (let round = 0; round < rounds; round++) {
        const file = (c: { name: string }) => path.join(outputs, `compare-${c.name}.ndjson`);
        const once = (c: typeof here) => measure(c.command(model, input, file(c)));
        // Who is first changes, so that neither always has the warmer machine.
        let pair: [Usage, Usage];
        if (round % 2 === 0) pair = [await once(here), await once(there)];
        else {
          const second = await once(there);
          pair = [await once(here), second];
        }
        pairs.push(pair);
        say(
          `round ${round + 1}/${rounds}  ${model}: here ${pair[0].seconds.toFixed(2)} s, ${base} ${pair[1].seconds.toFixed(2)} s`,
        );
        if (round > 0) continue;
        const samples = new Map([
          ['here', await readSample(file(here), rows)],
          ['base', await readSample(file(there), rows)],
        ]);
        if (Math.max(...distances(samples).values()) > TOLERANCE / 2)
          throw new Error(`${model}: scores differ from ${base}`);
      }
      process.stdout.write(`${model}, ${rows} rows, ${rounds} rounds, here ÷ ${base} (${commit}):\n`);
      line('wall', pairs, (u) => u.seconds);
      line('CPU', pairs, (u) => u.userSeconds + u.systemSeconds);
      line('peak memory', pairs, (u) => u.peakBytes);
    }
    process.stdout.write(`load average ${loadavg()[0]!.toFixed(2)}\n`);
  } finally {
    await run({ args: ['git', 'worktree', 'remove', '--force', tree], cwd: ROOT });
    rmSync(parent, { recursive: true, force: true });
  }
}

function line(what: string, pairs: readonly [Usage, Usage][], of: (u: Usage) => number): void {
  const s = spread(pairs.map(([a, b]) => of(a) / of(b)));
  process.stdout.write(
    `  ${what.padEnd(12)} min ${s.min.toFixed(3)}  median ${s.median.toFixed(3)}  max ${s.max.toFixed(3)}\n`,
  );
}

/** The same dependencies are shared; others are installed. */
async function dependencies(tree: string): Promise<void> {
  const lock = (root: string) => readFileSync(path.join(root, 'package-lock.json'), 'utf8');
  if (existsSync(path.join(tree, 'package-lock.json')) && lock(tree) === lock(ROOT)) {
    symlinkSync(path.join(ROOT, 'node_modules'), path.join(tree, 'node_modules'));
  } else await run({ args: ['npm', 'ci'], cwd: tree }, true);
}
