// An output and what lies beside it are of one run, or absent, whatever fails and whenever the process is killed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { MAIN, scratch } from '../support/cli.ts';
import { campaignTest, checkTest, stride, times } from '../support/tiers.ts';

const PRELOAD = path.resolve('test/support/fault-preload.mjs');
const COMMITTER = path.resolve('test/support/commit-process.ts');
const KILLS = times('commit kills', { quick: 10, check: 10, campaigns: 300 });
/** Every so many operations one is tried. */
const STEP = stride('commit step', { quick: 9, check: 18 });

let commits = 0;

interface Fault {
  at: number;
  how: string;
}

interface Ended {
  code: number | null;
  stderr: string;
  /** Operations on the file system, in order. */
  kinds: string[];
}

/** Commits `version` into the folder: an output, a list beside it and a third file in a folder of its own. */
function commit(folder: string, version: string, fault?: Fault): Promise<Ended> {
  const files = ['out.csv', 'out.csv.rejects.csv', 'proof/out.json'].map((name) => path.join(folder, name));
  return faulty(folder, [COMMITTER, version, ...files], fault);
}

/** Runs a program with a fault of the file system below `folder`. */
async function faulty(folder: string, args: readonly string[], fault?: Fault): Promise<Ended> {
  const count = `${folder}.${commits++}.count`;
  const env = {
    FAULT_FOLDER: folder,
    FAULT_AT: String(fault?.at ?? 0),
    FAULT_HOW: fault?.how ?? 'EIO',
    FAULT_COUNT: count,
  };
  const child = spawn(process.execPath, ['--import', PRELOAD, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stderr, kinds: existsSync(count) ? JSON.parse(readFileSync(count, 'utf8')) : [] };
}

function setUp(): string {
  const folder = path.join(scratch(), 'work');
  mkdirSync(path.join(folder, 'proof'), { recursive: true });
  return folder;
}

/** What is visible, name → content. */
function visible(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((n) => n.includes('out.') && !path.basename(n).startsWith('.')); // biome-ignore format: one line
  return Object.fromEntries(names.map((n) => [n, readFileSync(path.join(folder, n), 'utf8')]));
}

const hidden = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((n) => path.basename(n).startsWith('.'));

const of = (version: string): Record<string, string> => ({
  'out.csv': `${version} whole\n`,
  'out.csv.rejects.csv': `${version} whole\n`,
  'proof/out.json': `${version} whole\n`,
});

/** Whether all that is visible is of one run. */
const ofOneRun = (files: Record<string, string>): boolean => new Set(Object.values(files)).size <= 1;

async function holdsAt(folder: string, fault: Fault, old: string | null): Promise<void> {
  for (const name of Object.keys(of(''))) rmSync(path.join(folder, name), { force: true });
  const before = old === null ? {} : of(old);
  for (const [name, text] of Object.entries(before)) writeFileSync(path.join(folder, name), text);
  const { code, stderr, kinds } = await commit(folder, 'new', fault);
  const where = `${fault.how} at ${fault.at} (${kinds.at(fault.at - 1)}): ${stderr}`;
  const now = visible(folder);
  expect(ofOneRun(now), `${where} ${JSON.stringify(now)}`).toBe(true);
  if (fault.how !== 'kill') {
    // Done, or as if it had not been.
    expect([where, code, now]).toEqual([where, expect.toBeOneOf([0, 1]), code === 0 ? of('new') : before]);
  }
  expect([where, (await commit(folder, 'next')).code]).toEqual([where, 0]);
  expect([where, visible(folder), hidden(folder)]).toEqual([where, of('next'), []]);
}

describe('of one run, or absent', () => {
  for (const [name, old] of [
    ['over the files of an earlier run', 'old'],
    ['into an empty folder', null],
  ] as const) {
    checkTest(`${name}: an operation fails`, async () => {
      const folder = setUp();
      const { kinds } = await commit(folder, 'old');
      expect(kinds.filter((k) => k === 'rename').length).toBeGreaterThan(3);
      const codes = ['EIO', 'ENOSPC'];
      // Somewhat more than were counted: over earlier files there are more.
      for (let at = 1; at <= kinds.length + 20; at += STEP)
        await holdsAt(folder, { at, how: codes[((at / STEP) % 2) | 0]! }, old);
    });

    checkTest(`${name}: killed at an operation`, async () => {
      const folder = setUp();
      const most = (await commit(folder, 'old')).kinds.length + 20;
      for (let i = 0; i < KILLS; i++) {
        const at = 1 + ((i * 37 + 11) % most);
        await holdsAt(folder, { at, how: 'kill' }, old);
      }
    });
  }

  campaignTest('whoever completes the commit of a killed process fails or is killed as well', async () => {
    const folder = setUp();
    const { kinds } = await commit(folder, 'old');
    const begun = kinds.indexOf('rename');
    for (let i = 0; i < KILLS; i++) {
      for (const [name, text] of Object.entries(of('old'))) writeFileSync(path.join(folder, name), text);
      const at = begun + 1 + ((i * 7) % 24);
      await commit(folder, 'new', { at, how: 'kill' });
      const second = { at: 1 + ((i * 23) % 60), how: i % 2 === 0 ? 'kill' : 'EIO' };
      await commit(folder, 'newer', second);
      const where = `killed at ${at}, then ${second.how} at ${second.at}`;
      const now = visible(folder);
      expect([where, ofOneRun(now), Object.keys(now).length > 0]).toEqual([where, true, true]);
      expect([where, (await commit(folder, 'next')).code]).toEqual([where, 0]);
      expect([where, visible(folder), hidden(folder)]).toEqual([where, of('next'), []]);
    }
  });

  test('a commit that was killed half-way is completed by the next run into the same output', async () => {
    const folder = setUp();
    await commit(folder, 'old');
    const { kinds } = await commit(folder, 'older');
    // Where the list has gone and the output is about to change.
    const at = kinds.lastIndexOf('link') + 1;
    expect((await commit(folder, 'new', { at, how: 'kill' })).code).toBe(null);
    expect(Object.keys(visible(folder))).toEqual(['out.csv']);
    expect(hidden(folder).some((n) => n.endsWith('.commit'))).toBe(true);
    const opened = (await commit(folder, 'next', { at: 1_000_000, how: 'EIO' })).code;
    expect([opened, visible(folder), hidden(folder)]).toEqual([0, of('next'), []]);
  });
});

test('commits into one output at the same time follow each other', async () => {
  const folder = setUp();
  const versions = ['a', 'b', 'c', 'd'];
  for (let round = 0; round < times('commit rounds', { quick: 1, check: 1, campaigns: 50 }); round++) {
    const ended = await Promise.all(versions.map((v) => commit(folder, v)));
    expect(ended.map((e) => [e.code, e.stderr])).toEqual(versions.map(() => [0, '']));
    const now = visible(folder);
    expect([ofOneRun(now), Object.keys(now).length, hidden(folder)]).toEqual([true, 3, []]);
  }
});

/** Runs `score` into the folder, with a fault on the way. */
function score(folder: string, input: string, fault?: Fault): Promise<Ended> {
  const files = ['-o', path.join(folder, 'o.csv'), '--rejects', path.join(folder, 'l.csv')];
  return faulty(folder, [MAIN, 'score', input, '-m', 'credit-default', ...files, '--workers', '1', '--quiet'], fault);
}

campaignTest('a run of score: output and list are of one run, or absent, whatever fails', async () => {
  const folder = setUp();
  const input = `${folder}.csv`;
  writeFileSync(input, Buffer.concat([...generatePortfolio({ rows: 20, seed: 4, faults: 3, oddness: 'none' })]));
  const { kinds } = await score(folder, input);
  const read = () => ['o.csv', 'l.csv'].map((name) => readFileSync(path.join(folder, name), 'utf8'));
  const whole = read();
  expect(kinds.length).toBeGreaterThan(40);
  for (let at = 1; at <= kinds.length + 8; at += 3 * STEP) {
    for (const how of ['EIO', 'kill']) {
      for (const name of ['o.csv', 'l.csv']) writeFileSync(path.join(folder, name), 'old');
      const { code, stderr } = await score(folder, input, { at, how });
      const where = `${how} at ${at} (${kinds[at - 1]}): ${stderr}`;
      const now = ['o.csv', 'l.csv'].map((name) => existsSync(path.join(folder, name)) && readFileSync(path.join(folder, name), 'utf8')); // biome-ignore format: one line
      const runs = now.map((text, i) => (text === false ? 'absent' : text === whole[i] ? 'new' : text));
      expect([where, runs]).toEqual([where, expect.not.arrayContaining(['old', 'new'])]);
      if (how === 'EIO') expect([where, runs]).toEqual([where, code === 3 ? ['new', 'new'] : ['old', 'old']]);
      expect([where, (await score(folder, input)).code, read()]).toEqual([where, 3, whole]);
      expect([where, readdirSync(folder).sort()]).toEqual([where, ['l.csv', 'o.csv', 'o.csv.manifest.json', 'proof']]);
    }
  }
});
