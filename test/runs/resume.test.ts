// A run that was interrupted goes on, and ends with the files of an unbroken one; or it says why it does not.
import { copyFileSync, cpSync, existsSync, readFileSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'; // biome-ignore format: one line
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { sameData } from '../../src/engine/job-queue.ts';
import { readCheckpoints } from '../../src/runs/plugins/checkpoint-journal.ts';
import { type Run, scratch, sluice, start } from '../support/cli.ts';
import {
  argsOf,
  atCheckpoint,
  hiddenIn,
  inSight,
  isCommitBegun,
  type Job,
  jobOf,
  journalOf,
  killedRun,
  type Made,
  madeBy,
  OFTEN,
  scoreJob,
  seeded,
  unchained,
} from '../support/interrupted.ts';
import { copyUnlocked } from '../support/registries/packages.ts';
import { campaignTest, checkTest, SEED, TIER, times } from '../support/tiers.ts';

const KILLS = times('resume kills', { quick: 0, check: 1, campaigns: 60 });

/** What an unbroken run makes; the folder is then as it was. */
async function unbroken(job: Job): Promise<Made> {
  const run = await scoreJob(job, '--checkpoint-every', '0');
  expect([run.code, run.stderr.includes('Error')]).toEqual([3, false]);
  const made = madeBy(job, run);
  for (const name of Object.keys(made.files)) rmSync(path.join(job.folder, name));
  expect(hiddenIn(job)).toEqual([]);
  return made;
}

/** Goes on, and is done with the same files. */
async function goesOn(
  job: Job,
  made: Made,
  ...more: readonly string[]
): Promise<{ resumedRows: number; stderr: string }> {
  const run = await scoreJob(job, '--resume', ...OFTEN, ...more);
  expect([run.code, run.stderr]).toEqual([3, expect.any(String)]);
  expect(unchained(madeBy(job, run))).toEqual(unchained(made));
  expect(hiddenIn(job)).toEqual([]);
  return { resumedRows: JSON.parse(run.stdout).resumedRows, stderr: run.stderr };
}

const ENDS: readonly (readonly [input: string, output: string, ...flags: string[]])[] = [
  ['in.csv', 'out.csv'],
  ['in.csv', 'out.csv', '--no-manifest'],
  ['in.csv.gz', 'out.ndjson.zst'],
  ['in.json', 'out.csv.gz'],
  ['in.ndjson.zst', 'out.json'],
  ['in.csv', 'out.tsv.gz'],
];

/** Kills a run that goes on: at a moment of its time, or of its checkpoints. null: it came to its end before. */
async function killed(job: Job, random: () => number, took: number): Promise<Run | null> {
  // What changes no byte may change between two attempts.
  const free = ['--workers', String(1 + Math.floor(random() * 2)), '--read-bytes', String(1 + Math.floor(random() * 100_000))]; // biome-ignore format: one line
  const { child, done } = start(argsOf(job, '--resume', ...OFTEN, ...free), { cwd: job.folder });
  const more = random() < 0.2 ? 0 : 1 + Math.floor(random() * 4);
  const later = more === 0 ? took * random() : random() * 30;
  let ended = false;
  done.then(() => {
    ended = true;
  });
  const sizeOf = () =>
    journalOf(job) === null ? 0 : (statSync(journalOf(job)!, { throwIfNoEntry: false })?.size ?? 0);
  let size = sizeOf();
  for (let grown = 0; grown < more && !ended; ) {
    await sleep(2);
    const now = sizeOf();
    if (now > size) grown++;
    size = now;
  }
  // Varies the moment of the kill.
  await Promise.race([sleep(later), done]);
  child.kill('SIGKILL');
  const run = await done;
  return run.signal === 'SIGKILL' ? null : run;
}

describe('killed at any moment', () => {
  for (const [nth, [input, output, ...flags]] of ENDS.entries()) {
    (nth < 2 ? checkTest : campaignTest)([input, '→', output, ...flags].join(' '), async () => {
      const job = jobOf(input, output, { rows: 12_000, flags });
      const began = performance.now();
      const made = unchained(await unbroken(job));
      const took = performance.now() - began;
      const random = seeded(SEED * 100 + nth);
      let [kills, whole, resumed] = [0, 0, 0];
      while (kills < KILLS) {
        const where = `${output}, seed ${SEED}, kill ${kills}`;
        const run = await killed(job, random, took);
        if (run === null) {
          kills++;
          const found = inSight(job);
          expect([where, Object.keys(found), isCommitBegun(found, made.files, job)]).toEqual([
            where,
            Object.keys(found),
            true,
          ]);
          continue;
        }
        expect([where, run.code, run.stderr]).toEqual([where, 3, expect.any(String)]);
        expect([where, sameData(unchained(madeBy(job, run)), made), hiddenIn(job)]).toEqual([where, true, []]);
        whole++;
        if (JSON.parse(run.stdout).resumedRows > 0) resumed++;
        for (const name of Object.keys(made.files)) rmSync(path.join(job.folder, name));
      }
      const { resumedRows } = await goesOn(job, made);
      const told = `${whole + 1} came to their end, ${resumed + Number(resumedRows > 0)} of them had gone on`;
      if (TIER === 'campaigns') process.stderr.write(`${input} → ${output}: ${kills} kills, ${told}\n`);
    });
  }
});

campaignTest('it goes on where it was, with other workers and reads, in a copy of the folder', async () => {
  const job = jobOf('in.csv', 'out.csv', { rows: 20_000 });
  const made = await unbroken(job);
  const { rows } = await killedRun(job, { before: 20_000 });
  const folder = path.join(scratch(), 'elsewhere');
  cpSync(job.folder, folder, { recursive: true });
  const { resumedRows } = await goesOn({ ...job, folder }, made, '--workers', '2', '--read-bytes', '777');
  expect(resumedRows).toBeGreaterThanOrEqual(rows);
  expect(resumedRows).toBeLessThan(20_000);
  expect((await goesOn(job, made)).resumedRows).toBe(resumedRows);
});

for (const input of ['in.parquet', 'in.arrow', 'in.csv']) {
  for (const flags of [[], ['--no-manifest']]) {
    // The format does not depend on the manifest, and Parquet and Arrow are read in blocks of rows alike: one of each.
    ((flags.length === 0 ? input === 'in.parquet' : input === 'in.csv') ? checkTest : campaignTest)(
      `it goes on where it was: ${[input, ...flags].join(' ')}; with a changed input it does not`,
      async () => {
        const job = jobOf(input, 'out.csv', { rows: 20_000, flags });
        const made = await unbroken(job);
        const { rows } = await killedRun(job, { before: 19_000 });
        const folder = path.join(scratch(), 'elsewhere');
        cpSync(job.folder, folder, { recursive: true });
        const { resumedRows } = await goesOn(job, made, '--workers', '2');
        expect(resumedRows).toBeGreaterThanOrEqual(rows);
        expect(resumedRows).toBeLessThan(19_000);
        const other = jobOf(input, 'out.csv', { rows: 20_000, seed: 12, flags });
        copyFileSync(path.join(other.folder, input), path.join(folder, input));
        const { code, stderr } = await scoreJob({ ...job, folder }, '--resume', ...OFTEN);
        expect([code, stderr]).toEqual([1, expect.stringContaining('[checkpoint_mismatch]')]);
      },
    );
  }
}

checkTest(
  'a signal and an error of the disk leave what was written; a run without --resume says so and replaces it',
  async () => {
    const job = jobOf('in.csv', 'out.csv', { rows: 20_000 });
    const made = await unbroken(job);
    const { done } = await atCheckpoint(job, (pid) => process.kill(pid, 'SIGTERM'));
    const run = await done;
    expect([run.code, run.stderr]).toEqual([1, expect.stringContaining('use --resume to continue')]);
    const hidden = hiddenIn(job).filter((n) => /\.(kept|checkpoint)$/.test(n));
    expect(hidden.length).toBeGreaterThanOrEqual(2);
    // One that fails does not cost what is there.
    const failed = await scoreJob({ ...job, flags: [...job.flags, '--on-invalid', 'fail'] });
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining('(resume it with --resume); starting')]);
    expect(hiddenIn(job)).toEqual(hidden);
    const begun = await scoreJob(job);
    expect([begun.code, madeBy(job, begun), hiddenIn(job)]).toEqual([3, made, []]);
  },
);

checkTest('a torn journal counts up to its last whole line, and never says what was not written', async () => {
  const job = jobOf('in.csv', 'out.csv', { rows: 20_000 });
  const made = await unbroken(job);
  await killedRun(job);
  const journal = journalOf(job)!;
  const bytes = readFileSync(journal);
  const whole = (await readCheckpoints(journal))!;
  expect(whole.lines.length).toBeGreaterThan(2);
  const torn = path.join(scratch(), 'torn');
  let lines = 0;
  for (let length = 0; length <= bytes.length; length++) {
    if (bytes[length - 1] === 0x0a) lines++;
    // Between two line ends every place is the same to the reader but for its first and last bytes.
    const near = [-1, 0, 1, 17, 18].some((at) => bytes[length + at] === 0x0a || bytes[length - at] === 0x0a);
    if (!near && length % 97 !== 0) continue;
    writeFileSync(torn, bytes.subarray(0, length));
    expect((await readCheckpoints(torn))!.lines).toEqual(whole.lines.slice(0, lines));
    if (length === bytes.length) continue;
    const damaged = Buffer.from(bytes);
    damaged[length]! ^= 1 + (length % 255);
    writeFileSync(torn, damaged);
    const read = (await readCheckpoints(torn))!.lines;
    expect(read).toEqual(whole.lines.slice(0, read.length));
    expect(read.length).toBeLessThan(whole.lines.length);
  }
  if (TIER !== 'campaigns') return;
  const ends = [...bytes.entries()].filter(([, byte]) => byte === 0x0a).map(([at]) => at);
  for (const length of [0, ends[0]! + 1, ends[1]! + 1, ends[1]! + 30, bytes.length - 1]) {
    const folder = path.join(scratch(), 'copy');
    cpSync(job.folder, folder, { recursive: true });
    const copy = { ...job, folder };
    truncateSync(journalOf(copy)!, length);
    const { resumedRows } = await goesOn(copy, made);
    expect(resumedRows > 0).toBe(length > ends[1]!);
  }
});

campaignTest('a second run takes nothing from a living one, whether it was asked to go on or not', async () => {
  const job = jobOf('in.csv', 'out.csv', { rows: 20_000 });
  const made = unchained(await unbroken(job));
  let stopped = 0;
  const { done } = await atCheckpoint(job, (pid) => {
    stopped = pid;
    process.kill(pid, 'SIGSTOP');
  });
  const hidden = hiddenIn(job);
  for (const flag of ['--resume', '--restart']) {
    const second = await scoreJob(job, flag, ...OFTEN);
    expect([flag, second.code, JSON.parse(second.stdout).resumedRows]).toEqual([flag, 3, 0]);
    expect([flag, unchained(madeBy(job, second)), hiddenIn(job)]).toEqual([flag, made, hidden]);
  }
  process.kill(stopped, 'SIGCONT');
  const first = await done;
  expect([first.code, unchained(madeBy(job, first)), hiddenIn(job)]).toEqual([3, made, []]);
});

campaignTest('two that go on with one run at the same time: one of them gets it', async () => {
  const job = jobOf('in.csv', 'out.csv', { rows: 20_000 });
  const made = unchained(await unbroken(job));
  await killedRun(job);
  const both = await Promise.all([1, 2].map(() => scoreJob(job, '--resume', ...OFTEN)));
  expect(both.map((run) => [run.code, unchained(madeBy(job, run))])).toEqual(both.map(() => [3, made]));
  expect(both.filter((run) => JSON.parse(run.stdout).resumedRows > 0)).toHaveLength(1);
  expect(hiddenIn(job)).toEqual([]);
});

describe('another run is refused in words', () => {
  checkTest('input, options, package: each is named, and nothing is touched', async () => {
    const job = jobOf('in.csv', 'out.csv', { rows: 20_000 });
    const registry = path.join(scratch(), 'models');
    copyUnlocked('src/bundled/credit-default', path.join(registry, 'credit-default'));
    const at = { ...job, flags: [...job.flags, '--registry', registry] };
    const made = await unbroken(at);
    await killedRun(at);
    const input = path.join(job.folder, job.input);
    const text = readFileSync(input, 'latin1');
    const hidden = hiddenIn(job).filter((n) => !n.endsWith('.lease')).map((n) => n.replace(/[0-9a-f]{12}-\d+-\d+/, '')); // biome-ignore format: one line
    const refused = async (with_: Job, says: string) => {
      const { code, stderr } = await scoreJob(with_, '--resume', ...OFTEN);
      expect([says, code, stderr]).toEqual([says, 1, expect.stringContaining('[checkpoint_mismatch]')]);
      expect(stderr).toContain(says);
      expect(hiddenIn(job).map((n) => n.replace(/[0-9a-f]{12}-\d+-\d+/, ''))).toEqual(expect.arrayContaining(hidden));
    };
    await refused({ ...at, flags: [...at.flags, '--max-columns', '77'] }, 'score.max_columns changed');
    await refused({ ...at, flags: [...at.flags, '--block-bytes', '8192'] }, 'the bytes of a block changed');
    await refused({ ...at, flags: [...at.flags, '--interpretation'] }, 'score.interpretation changed');
    const card = path.join(registry, 'credit-default/1/background.csv');
    const before = readFileSync(card);
    writeFileSync(card, `${before.toString()}\n`);
    await refused(at, 'the content of its package changed');
    writeFileSync(card, before);
    writeFileSync(input, `${text}\n`, 'latin1');
    await refused(at, 'the size of the input changed');
    const comma = text.indexOf(',', 5000);
    const digit = /\d/.exec(text.slice(comma))!.index + comma;
    writeFileSync(input, `${text.slice(0, digit)}${(Number(text[digit]) + 1) % 10}${text.slice(digit + 1)}`, 'latin1');
    await refused(at, 'the content of the input changed');
    writeFileSync(input, text, 'latin1');
    for (const [what, says] of [
      ['out.csv.rejects.csv', 'the rejects file changed'],
      ['out.csv', 'the partial output changed'],
    ] as const) {
      // The same bytes but for one; its name is another one each time.
      const kept = () =>
        path.join(job.folder, hiddenIn(job).find((n) => n.startsWith(`.${what}.`) && /\.[0-9a-f]{12}[-\d]*\.kept$/.test(n) && n.includes('rejects') === what.includes('rejects'))!); // biome-ignore format: one line
      const whole = readFileSync(kept());
      const changed = Buffer.from(whole);
      expect(changed.length).toBeGreaterThan(20);
      changed[20]! ^= 1;
      writeFileSync(kept(), changed);
      await refused(at, says);
      writeFileSync(kept(), whole);
    }
    await goesOn(at, made);
  });

  checkTest('--restart begins from the start, and a pipeline goes on by itself', async () => {
    const job = jobOf('in.csv', 'out.csv', { rows: 40_000 });
    const pipeline = path.join(job.folder, 'nightly.yaml');
    writeFileSync(pipeline, `model: credit-default\nsource: { type: file, path: in.csv }\nsink: { type: file, path: out.csv }\ndead_letter: { type: file, path: out.csv.rejects.csv }\nscore: { evaluator: native }\ncheckpoint_every: 0.001\n`); // biome-ignore format: one line
    const run = (...more: string[]) => sluice(['run', 'nightly.yaml', '--json', ...more], { cwd: job.folder });
    const first = await run();
    const made = madeBy({ ...job, input: 'in.csv' }, first).counts;
    expect(first.code).toBe(3);
    const files = () => ['out.csv', 'out.csv.rejects.csv'].map((n) => readFileSync(path.join(job.folder, n), 'latin1'));
    const want = files();
    for (const [more, resumes] of [
      [[], true],
      [['--restart'], false],
    ] as const) {
      await killedRun(job, { checkpoints: 1, args: ['run', 'nightly.yaml', '--json'] });
      const again = await run(...more);
      expect([again.code, madeBy(job, again).counts, files()]).toEqual([3, made, want]);
      expect(JSON.parse(again.stdout).resumedRows > 0).toBe(resumes);
      expect(hiddenIn(job)).toEqual([]);
    }
  });

  test('what cannot be gone on with says so', async () => {
    const job = jobOf('in.csv', 'out.csv', { rows: 20 });
    const { input } = job;
    const run = (...args: string[]) => sluice(['score', ...args, '-m', 'credit-default', '--resume', '--quiet', '--evaluator', 'native'], { cwd: job.folder, stdin: readFileSync(path.join(job.folder, input)) }); // biome-ignore format: one line
    const [stdin, stdout, both] = await Promise.all([
      run('-', '-o', 'a.csv', '--input-format', 'csv'),
      run(input),
      run(input, '-o', 'b.csv', '--restart'),
    ]);
    expect([stdin.code, stdin.stderr]).toEqual([2, expect.stringContaining('standard input cannot be read again')]);
    expect([stdout.code, stdout.stderr]).toEqual([
      2,
      expect.stringContaining('runs into standard output cannot be resumed'),
    ]);
    expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('mutually exclusive')]);
    expect(hiddenIn(job)).toEqual([]);
  });
});

campaignTest('what is left is bounded, and goes with what replaces it', async () => {
  const job = jobOf('in.csv', 'out.csv', { rows: 20_000 });
  const made = await unbroken(job);
  await killedRun(job);
  for (let i = 0; i < 3; i++) {
    const gone = journalOf(job)!;
    const aside = path.join(scratch(), path.basename(gone));
    // Out of sight of whoever waits for the journal of the next run.
    renameSync(gone, aside);
    await killedRun(job);
    copyFileSync(aside, gone);
  }
  expect(hiddenIn(job).filter((n) => n.endsWith('.kept')).length).toBeLessThanOrEqual(4);
  await goesOn(job, made);
  expect(existsSync(path.join(job.folder, job.output))).toBe(true);
});
