// Combinations that need a process of their own: runs that are killed at a random block and resumed, and standard streams.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { score } from '../../src/doors/commands/score.ts';
import { MAIN, start } from '../support/cli.ts';
import fc from '../support/seeded-fast-check.ts';
import { checkTest, SEED, times } from '../support/tiers.ts';
import { type Case, combinations, MODELS } from './combinations.ts';
import { differences } from './compare.ts';
import { ENDINGS, type Outcome, PACKAGES, scoreFlags, unpacked } from './entries.ts';
import { questionOf } from './judge.ts';
import { answer, OracleModel, type Verdict } from './oracle.ts';
import { type StoredInput, storedInput } from './stored-input.ts';

const COUNT = times('crossings', { quick: 300, check: 500, campaigns: 200_000 });
const RUNS = Math.max(3, Math.min(600, Math.round(COUNT * 0.006)));
/** Rows of a run that is interrupted. */
const MANY = 4_000;

const models = new Map<string, OracleModel>();
const effects = new Map<string, string>();
let folder: string;

beforeAll(async () => {
  for (const name of Object.keys(MODELS)) {
    models.set(name, await OracleModel.open(path.join(PACKAGES[name === 'typed-columns' ? 1 : 0]!, name, '1')));
  }
  folder = mkdtempSync(path.join(tmpdir(), 'sluice-processes-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const expectedOf = (c: Case, stored: StoredInput): Promise<Verdict> =>
  answer(questionOf(c, stored, models.get(c.model)!));

/** The flags of the command line that say the same as those of a call. */
function argumentsOf(file: string, flags: object): string[] {
  const args = ['score', file];
  for (const [key, value] of Object.entries(flags)) {
    const name = `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    if (key === 'manifest') args.push('--no-manifest');
    else if (value === true) args.push(name);
    else if (value !== undefined) args.push(`${name}=${value}`);
  }
  return args;
}

const emptyFolder = (): string => {
  const made = path.join(folder, 'run');
  rmSync(made, { recursive: true, force: true });
  mkdirSync(made);
  return made;
};

/** A case with the same rows again and again, in small blocks, whose output can be resumed. */
function repeated(c: Case): Case {
  const rows = Math.max(1, c.columns[0]!.cells.length);
  const columns = c.columns.map((column) => ({
    ...column,
    cells: Array.from({ length: MANY }, (_, row) => column.cells[row % rows] ?? null),
  }));
  const broken = c.broken.flatMap((row) => Array.from({ length: Math.floor((MANY - row) / rows) }, (_, i) => row + i * rows)); // biome-ignore format: one line
  const output = c.output === 'parquet' || c.output === 'arrow' ? 'ndjson' : c.output;
  const tuning = { ...c.tuning, blockBytes: 4_096, readBytes: 4_096, batchRows: 64, workers: 1 };
  return { ...c, columns, broken, output, tuning, onInvalid: 'report', maxRejects: null, interpretation: 'none' };
}

const checkpointsIn = (run: string): number => {
  const journal = readdirSync(run).find((name) => name.endsWith('.checkpoint'));
  if (journal === undefined) return 0;
  try {
    return readFileSync(path.join(run, journal), 'utf8').split('\n').length - 2;
  } catch {
    return 0;
  }
};

/** Starts the run in a process and kills it after some checkpoints; false: it ended before. */
async function killed(file: string, flags: object, run: string, checkpoints: number): Promise<boolean> {
  const { child, done } = start(argumentsOf(file, flags));
  let ended = false;
  done.then(() => {
    ended = true;
  });
  while (!ended && checkpointsIn(run) < checkpoints) await sleep(1);
  if (!ended) child.kill('SIGKILL');
  return (await done).signal === 'SIGKILL';
}

const readOutcome = (c: Case, output: string, exitCode: number): Outcome => {
  const rejects = `${output}.rejects.csv`;
  const text = readdirSync(path.dirname(rejects)).includes(path.basename(rejects))
    ? readFileSync(rejects, 'utf8')
    : null;
  return { bytes: unpacked(readFileSync(output), c), rejects: text, exitCode };
};

checkTest('a run that is killed at a random block and resumed writes what an unbroken one does', async () => {
  let [kills, resumed] = [0, 0];
  const cases = combinations({ entries: ['command'], models: ['trees', 'classes', 'value'] }).map(repeated);
  await fc.assert(
    fc.asyncProperty(
      cases,
      fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 3 }),
      async (c, stops) => {
        const stored = storedInput(c);
        const expected = await expectedOf(c, stored);
        // Refusals are those of runs that are not interrupted.
        if ('refused' in expected) return;
        const run = emptyFolder();
        const file = path.join(run, `in.${c.input}${ENDINGS[c.inputCompression]}`);
        const output = path.join(run, `out.${c.output}${ENDINGS[c.outputCompression]}`);
        writeFileSync(file, stored.bytes);
        const flags = { ...scoreFlags(c, stored, output), checkpointEvery: 0.001, resume: true };
        let isDone = false;
        for (const checkpoints of stops) {
          if (isDone) break;
          isDone = !(await killed(file, flags, run, checkpointsIn(run) + checkpoints));
          if (!isDone) kills++;
        }
        if (!isDone && checkpointsIn(run) > 0) resumed++;
        const rejected = expected.rows.some(({ error }) => error !== null);
        const exitCode = isDone ? (rejected ? 3 : 0) : await score(file, flags);
        const found = await differences({ c, model: models.get(c.model)!, expected, outcome: readOutcome(c, output, exitCode), effects }); // biome-ignore format: one line
        const hidden = readdirSync(run).filter((name) => name.startsWith('.'));
        expect(
          [found, hidden],
          `seed ${SEED}, after ${stops.join(', ')} checkpoints, ${c.input} to ${c.output}`,
        ).toEqual([[], []]);
      },
    ),
    { numRuns: RUNS * 2, seed: SEED, endOnFailure: true },
  );
  expect(kills, 'runs that were killed').toBeGreaterThan(0);
  expect(resumed, 'runs that were resumed').toBeGreaterThan(0);
});

/** Runs a command with its standard input; gives its standard output as bytes. */
async function piped(args: string[], input: Buffer): Promise<{ code: number | null; bytes: Buffer; stderr: string }> {
  const { spawn } = await import('node:child_process');
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
  const chunks: Buffer[] = [];
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, bytes: Buffer.concat(chunks), stderr };
}

checkTest('standard input to standard output gives what files do', async () => {
  const cases = combinations({ entries: ['command'], models: ['trees', 'classes', 'value'] })
    .filter((c) => c.input !== 'parquet')
    .map((c): Case => ({ ...c, maxRejects: null }));
  await fc.assert(
    fc.asyncProperty(cases, async (c) => {
      const stored = storedInput(c);
      const expected = await expectedOf(c, stored);
      const run = emptyFolder();
      const { output: _, rejects: __, ...rest } = scoreFlags(c, stored, '-') as unknown as Record<string, unknown>;
      const rejects = path.join(run, 'rejects.csv');
      const compressions = { inputCompression: c.inputCompression, compression: c.outputCompression };
      const flags = {
        ...rest,
        ...compressions,
        ...(c.rejects ? { rejects } : {}),
        output: '-',
        json: true,
        quiet: undefined,
      };
      const { code, bytes, stderr } = await piped(argumentsOf('-', flags), stored.bytes);
      const where = `seed ${SEED}\n${JSON.stringify(c)}\n${stderr}`;
      if ('refused' in expected) {
        expect([1, 2], where).toContain(code);
        expect(expected.refused.some((refusal) => stderr.includes(refusal)) || code === 2, where).toBe(true);
        return;
      }
      expect(code, where).toBeOneOf([0, 3]);
      const text = c.rejects ? readFileSync(rejects, 'utf8') : null;
      const rejected = expected.rows.some(({ error }) => error !== null);
      // Without a name for it there is no rejects file beside a stream.
      const shown: Case = { ...c, entry: 'pipeline' };
      const outcome: Outcome = { bytes: unpacked(bytes, c), rejects: text, exitCode: code };
      expect(code, where).toBe(rejected ? 3 : 0);
      expect(await differences({ c: shown, model: models.get(c.model)!, expected, outcome, effects }), where).toEqual(
        [],
      );
      const summary = JSON.parse(stderr.slice(stderr.lastIndexOf('{"input"'), stderr.lastIndexOf('}') + 1));
      expect([summary.rows, summary.rejected], where).toEqual([expected.rows.length, expected.rows.filter(({ error }) => error).length]); // biome-ignore format: one line
    }),
    { numRuns: RUNS * 2, seed: SEED, endOnFailure: true },
  );
});
