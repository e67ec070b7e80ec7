// Whose a temporary file is: what killed processes left goes, what others are writing stays, in other containers as well.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { openFileSink } from '../../../src/io/sink/file-sink.ts';
import { thisOwner } from '../../../src/io/sink/owner.ts';
import { scratch } from '../../support/cli.ts';
import { testNeeding } from '../../support/tools.ts';

const COMMITTER = path.resolve('test/support/commit-process.ts');
/** The first process of a PID namespace of its own, as in a container; it ends with the process that started it. */
const CONTAINER = ['unshare', '-pf', '--mount-proc', '--kill-child', process.execPath];
const HERE = [process.execPath];

const left = (folder: string): string[] => readdirSync(folder).sort();
const hidden = (folder: string): string[] => left(folder).filter((name) => name.startsWith('.'));

function committer(command: readonly string[], folder: string, version: string, hold: boolean) {
  const [program, ...args] = command;
  const child = spawn(
    program!,
    [...args, COMMITTER, version, path.join(folder, 'out.csv'), path.join(folder, 'list.csv')],
    {
      env: { ...process.env, HOLD: hold ? '1' : '' },
      stdio: 'pipe',
    },
  );
  let stderr = '';
  child.stderr.on('data', (text) => {
    stderr += text;
  });
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, stderr }));
  return { child, ended };
}

const commit = (command: readonly string[], folder: string, version: string) =>
  committer(command, folder, version, false).ended;

/** One that has written everything and published nothing. @returns what it says, with its PID as it sees it */
async function held(command: readonly string[], folder: string, version: string) {
  const one = committer(command, folder, version, true);
  const [said] = (await once(one.child.stdout!, 'data')) as [Buffer];
  return { ...one, said: said.toString() };
}

const kill = async ({ child, ended }: { child: ChildProcess; ended: Promise<unknown> }): Promise<void> => {
  child.kill('SIGKILL');
  await ended;
};

const isOf = (folder: string, version: string): void => {
  for (const name of ['out.csv', 'list.csv']) {
    expect(readFileSync(path.join(folder, name), 'utf8')).toBe(`${version} whole\n`);
  }
};

for (const [where, command] of [
  ['in the same container', HERE],
  ['in containers of their own', CONTAINER],
] as const) {
  const needs = command === CONTAINER ? (['unshare as root'] as const) : [];

  testNeeding(needs, `${where}: what a killed process left goes with the next run`, async () => {
    const folder = scratch();
    const one = await held(command, folder, 'a');
    if (command === CONTAINER) expect(one.said).toBe('held by 1\n');
    expect(hidden(folder).filter((name) => name.endsWith('.partial'))).toHaveLength(2);
    await kill(one);
    expect(await commit(command, folder, 'b')).toEqual({ code: 0, stderr: '' });
    isOf(folder, 'b');
    expect(left(folder)).toEqual(['list.csv', 'out.csv']);
  });

  testNeeding(needs, `${where}: what another is writing stays, and both come to their end`, async () => {
    const folder = scratch();
    const one = await held(command, folder, 'a');
    const other = await held(command, folder, 'b');
    other.child.stdin!.end();
    expect(await other.ended).toEqual({ code: 0, stderr: '' });
    isOf(folder, 'b');
    expect(hidden(folder).filter((name) => name.endsWith('.partial'))).toHaveLength(2);
    one.child.stdin!.end();
    expect(await one.ended).toEqual({ code: 0, stderr: '' });
    isOf(folder, 'a');
    expect(left(folder)).toEqual(['list.csv', 'out.csv']);
  });
}

testNeeding(['unshare as root'], 'a host and a container see each other', async () => {
  for (const [inner, outer] of [
    [CONTAINER, HERE],
    [HERE, CONTAINER],
  ] as const) {
    const folder = scratch();
    const living = await held(inner, folder, 'a');
    const dead = await held(inner, folder, 'x');
    await kill(dead);
    expect(await commit(outer, folder, 'b')).toEqual({ code: 0, stderr: '' });
    expect(hidden(folder).filter((name) => name.endsWith('.partial'))).toHaveLength(2);
    living.child.stdin!.end();
    expect(await living.ended).toEqual({ code: 0, stderr: '' });
    isOf(folder, 'a');
    expect(left(folder)).toEqual(['list.csv', 'out.csv']);
  }
});

test('a process id that somebody else has by now is not its owner', async () => {
  const folder = scratch();
  const [where, pid] = (await thisOwner()).split('-');
  const names = [
    `.out.csv.${where}-${pid}-1.0123456789ab.partial`,
    `.out.csv.${where}-${process.ppid}-1.0123456789ab.partial`,
    `.out.csv.${where}-4194303-77.0123456789ab.before`,
    `.sluice.${where}-4194303-77.lease`,
    // Of a version that named files by the process id alone.
    '.out.csv.4194303.abc123.partial',
    `.out.csv.${process.pid}.abc123.partial`,
  ];
  for (const name of names) writeFileSync(path.join(folder, name), '');
  const sink = await openFileSink(path.join(folder, 'out.csv'));
  await sink.commit();
  expect(left(folder)).toEqual(['out.csv']);
});

test('what cannot be told stays, and is told', async () => {
  const folder = scratch();
  const owner = 'ffffffffffff-1-1';
  const partial = `.out.csv.${owner}.0123456789ab.partial`;
  writeFileSync(path.join(folder, partial), '');
  // A lease that cannot be locked.
  mkdirSync(path.join(folder, `.sluice.${owner}.lease`));
  const { code, stderr } = await commit(HERE, folder, 'a');
  expect([code, stderr]).toEqual([
    0,
    expect.stringContaining(`${partial} was written by another machine or container`),
  ]);
  expect(left(folder)).toEqual([partial, `.sluice.${owner}.lease`, 'list.csv', 'out.csv']);
});

test("files of other names, and of other outputs, are nobody's business", async () => {
  const folder = scratch();
  const others = [
    '.out.csv.swp',
    '.out.csv.partial',
    '.out.csv.bak.0123456789ab.partial',
    '.out.csv.x.4194303.abc123.partial',
  ];
  for (const name of others) writeFileSync(path.join(folder, name), '');
  await (await openFileSink(path.join(folder, 'out.csv'))).commit();
  expect(left(folder)).toEqual([...others, 'out.csv'].sort());
});

test('a name as long as the file system takes', async () => {
  const folder = scratch();
  const name = `${'n'.repeat(251)}.csv`;
  const sink = await openFileSink(path.join(folder, name));
  await sink.write(Buffer.from('x'));
  await sink.commit();
  expect(left(folder)).toEqual([name]);
});
