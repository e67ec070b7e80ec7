// Standard streams that can be written no longer: `sluice … | head -1`, a full disk. Nobody reads a stack.
import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { MAIN, scratch } from '../../support/cli.ts';
import { campaignTest, testOfMany } from '../../support/tiers.ts';

/** Waits until the reader of the pipe is gone, then runs the command into it; its exit code and the other stream go elsewhere. */
const INTO_CLOSED = {
  stdout: 'trap "" PIPE; { while echo; do :; done 2>/dev/null; "$@"; echo "$?" >&3; } 3>&2 2>&4 | :',
  stderr: 'trap "" PIPE; { while echo; do :; done 2>/dev/null; "$@" >&4; echo "$?" >&3; } 3>&2 2>&1 | :',
};

async function intoClosed(stream: 'stdout' | 'stderr', args: readonly string[], cwd: string) {
  const child = spawn('sh', ['-c', INTO_CLOSED[stream], 'sh', process.execPath, MAIN, ...args], {
    cwd,
    stdio: ['ignore', 'ignore', 'pipe', 'ignore', 'pipe'],
  });
  const [code, other] = await Promise.all([text(child.stderr!), text(child.stdio[4] as NodeJS.ReadableStream)]);
  return { code: Number(code), other };
}

function folderWithPortfolio(): string {
  const folder = scratch();
  writeFileSync(path.join(folder, 'p.csv'), Buffer.concat([...generatePortfolio({ rows: 50, seed: 8 })]));
  writeFileSync(path.join(folder, 'keys.yaml'), 'keys: []\n');
  return folder;
}

const PIPELINE = path.resolve('pipelines/loan-applications.yaml');
const SCORE = ['score', 'p.csv', '-m', 'credit-default'];

describe('nobody reads standard output any more', () => {
  const calls: [code: number, args: string[], often?: true][] = [
    [0, ['--help'], true],
    [0, ['--version']],
    [0, ['score', '--help']],
    [0, ['model', 'list'], true],
    [0, ['model', 'show', 'credit-default']],
    [0, ['model', 'show', 'credit-default', '--json']],
    [0, ['model', 'verify', 'credit-default']],
    [0, ['keys', 'list']],
    [0, ['explain', 'p.csv', '--row', '1', '-m', 'credit-default'], true],
    [0, ['inspect', 'p.csv', '-m', 'credit-default'], true],
    [0, ['lint', PIPELINE]],
    [0, ['test', PIPELINE], true],
    [0, [...SCORE, '-o', 'scored.csv', '--json'], true],
    [0, ['dlq', 'list', '--help']],
    [0, ['outcomes', '--help']],
    [0, ['plan', 'p.csv', '--shards', '2', '--json']],
    [1, ['generate', '--rows', '5', '-o', '-'], true],
    [1, SCORE, true],
  ];
  for (const [i, [code, args, often]] of calls.entries()) {
    // Words that are dropped are dropped in one place: the check has one call of each kind of output.
    (often ? testOfMany(i, 2) : campaignTest)(`${code} for ${JSON.stringify(args)}`, async () => {
      const run = await intoClosed('stdout', args, folderWithPortfolio());
      expect(run.other).not.toMatch(/EPIPE|^ +at /m);
      expect(run.code).toBe(code);
      if (code === 1) expect(run.other).toMatch(/the reader closed standard output \[output_closed\]/);
    });
  }
});

describe('nobody reads standard error any more', () => {
  test.each<[code: number, args: string[]]>([
    [0, [...SCORE, '-o', 'scored.csv']],
    [2, [...SCORE, '--wrokers', '2']],
    [1, ['score', 'none.csv', '-m', 'credit-default']],
  ])('%i for %j', async (code, args) => {
    const folder = folderWithPortfolio();
    expect((await intoClosed('stderr', args, folder)).code).toBe(code);
    if (code === 0)
      expect(readFileSync(path.join(folder, 'scored.csv'), 'utf8').trimEnd().split('\n')).toHaveLength(51);
  });
});

describe.runIf(existsSync('/dev/full'))('standard output is on a full disk', () => {
  test.each([
    [['model', 'list'], /^sluice: standard output cannot be written: ENOSPC \[output_failed\]\n$/],
    [['--help'], /^sluice: standard output cannot be written: ENOSPC \[output_failed\]\n$/],
    [
      [...SCORE, '--quiet'],
      /^sluice: no room for standard output: ENOSPC, no space is left on the disk \[output_full\]\n/,
    ],
  ])('1 for %j', async (args, words) => {
    const full = openSync('/dev/full', 'w');
    const child = spawn(process.execPath, [MAIN, ...args], {
      cwd: folderWithPortfolio(),
      stdio: ['ignore', full, 'pipe'],
    });
    closeSync(full);
    const code = new Promise((resolve) => child.once('close', resolve));
    const stderr = await text(child.stderr!);
    expect(stderr).toMatch(words);
    expect(stderr).not.toMatch(/^ +at /m);
    expect(await code).toBe(1);
  });
});
