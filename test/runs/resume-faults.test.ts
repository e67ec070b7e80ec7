// Whatever operation of the file system fails, or kills the process, while a run has checkpoints: its files are those of one run or
// absent, and whoever goes on makes the files of an unbroken run.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { sameData } from '../../src/engine/job-queue.ts';
import { MAIN } from '../support/cli.ts';
import {
  argsOf,
  hiddenIn,
  inSight,
  isCommitBegun,
  type Job,
  jobOf,
  madeBy,
  OFTEN,
  scoreJob,
  unchained,
} from '../support/interrupted.ts';
import { checkTest, stride, TIER } from '../support/tiers.ts';

const PRELOAD = path.resolve('test/support/fault-preload.mjs');
/** Every so many operations one is tried. */
const STEP = stride('resume step', { quick: 80, check: 80 });
const HOWS = ['kill', 'EIO', 'ENOSPC'];

/** Goes on with a fault below the folder; gives its exit code and the operations that there were. */
async function faulty(
  job: Job,
  at: number,
  how: string,
): Promise<{ code: number | null; stderr: string; kinds: string[] }> {
  const count = `${job.folder}.count`;
  rmSync(count, { force: true });
  const env = { FAULT_FOLDER: job.folder, FAULT_AT: String(at), FAULT_HOW: how, FAULT_COUNT: count };
  const child = spawn(
    process.execPath,
    ['--import', PRELOAD, MAIN, ...argsOf(job, '--resume', '--workers', '1', ...OFTEN)],
    {
      cwd: job.folder,
      env: { ...process.env, SLUICE_LOG_FORMAT: 'text', ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let stderr = '';
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stderr, kinds: existsSync(count) ? JSON.parse(readFileSync(count, 'utf8')) : [] };
}

checkTest('the nth operation fails, or kills the process', async () => {
  const job = jobOf('in.csv', 'out.csv', { rows: 12_000, flags: ['--block-bytes', '32768'] });
  const first = await scoreJob(job, '--checkpoint-every', '0');
  const made = unchained(madeBy(job, first));
  const clear = () => {
    for (const name of Object.keys(made.files)) rmSync(path.join(job.folder, name), { force: true });
  };
  clear();
  const flushes = (all: readonly string[]) => all.filter((kind) => kind === 'handle.datasync').length;
  let { kinds } = await faulty(job, 0, 'EIO');
  // How many checkpoints there are depends on how fast the machine is.
  for (let tries = 1; flushes(kinds) < 2 && tries < 20; tries++) {
    clear();
    kinds = (await faulty(job, 0, 'EIO')).kinds;
  }
  expect(flushes(kinds)).toBeGreaterThan(1);
  expect(kinds.length).toBeGreaterThan(40);
  let [tried, fired] = [0, 0];
  for (let at = 1; at <= kinds.length; at += STEP) {
    const how = HOWS[tried++ % HOWS.length]!;
    clear();
    const fault = await faulty(job, at, how);
    const where = `${how} at ${at} (${fault.kinds[at - 1]}): ${fault.stderr}`;
    if (fault.kinds.length >= at) fired++;
    const found = inSight(job);
    const whole = sameData(found, made.files);
    const none = Object.keys(found).length === 0;
    const asItShould = how === 'kill' ? isCommitBegun(found, made.files, job) : whole || none;
    expect([where, Object.keys(found), asItShould]).toEqual([where, Object.keys(found), true]);
    if (how !== 'kill') expect([where, fault.code]).toEqual([where, whole ? 3 : 1]);
    const run = await scoreJob(job, '--resume', ...OFTEN);
    expect([where, run.code, sameData(unchained(madeBy(job, run)), made), hiddenIn(job)]).toEqual([where, 3, true, []]);
  }
  if (TIER === 'campaigns') process.stderr.write(`${tried} operations were tried, ${fired} of them came\n`);
});
