// Files of one commit get their names together, or none does; what is not whole, and what an earlier run left, goes.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { fieldsOfStat } from '../../../src/core/processes.ts';
import { CommitSet } from '../../../src/io/sink/commit-set.ts';
import { thisOwner } from '../../../src/io/sink/owner.ts';
import { keepLatest } from '../../../src/io/sink/temporary-files.ts';
import { scratch } from '../../support/cli.ts';

const filesOf = (folder: string): Record<string, string> =>
  Object.fromEntries(readdirSync(folder).sort().map((name) => [name, readFileSync(path.join(folder, name), 'utf8')])); // biome-ignore format: one line
const write = async (set: CommitSet, file: string, text: string, beside = false): Promise<void> => {
  const sink = await set.open(file, { beside });
  await sink.write(Buffer.from(text));
  expect(sink.bytesWritten).toBe(text.length);
  await sink.commit();
};

/** A set in which a new output replaces an old one, and the old list beside it is removed. */
async function replacedAndRemoved() {
  const folder = scratch();
  const [out, list] = ['out.csv', 'list.csv'].map((name) => path.join(folder, name)) as [string, string];
  for (const file of [out, list]) writeFileSync(file, 'old');
  const set = new CommitSet();
  await write(set, out, 'new');
  await set.remove(list);
  return { folder, list, set };
}

test('what an earlier run left beside an output is removed with the commit, not before', async () => {
  const { folder, list, set } = await replacedAndRemoved();
  await set.remove(path.join(folder, 'never.csv'));
  expect(readFileSync(list, 'utf8')).toBe('old');
  await set.publish();
  expect(filesOf(folder)).toEqual({ 'out.csv': 'new' });
});

test('aborted, it leaves what was there', async () => {
  const { folder, set } = await replacedAndRemoved();
  await set.abort();
  await set.abort();
  expect(filesOf(folder)).toEqual({ 'out.csv': 'old', 'list.csv': 'old' });
});

test.each([
  ['the only output', ['out.csv'], 'out.csv'],
  ['the output', ['out.csv', 'list.csv'], 'out.csv'],
  ['the file beside the output', ['out.csv', 'list.csv'], 'list.csv'],
])('a temporary file that was removed during the run is reported, and nothing changes: %s', async (_, names, gone) => {
  const folder = scratch();
  const set = new CommitSet();
  for (const name of names) {
    writeFileSync(path.join(folder, name), 'old');
    await write(set, path.join(folder, name), 'new', name !== 'out.csv');
  }
  const [temporary] = readdirSync(folder).filter((name) => name.startsWith(`.${gone}.`));
  rmSync(path.join(folder, temporary!));
  await expect(set.publish()).rejects.toMatchObject({
    code: 'output_failed',
    message: expect.stringContaining(`its temporary file ${temporary} was removed`),
  });
  expect(filesOf(folder)).toEqual(Object.fromEntries(names.map((name) => [name, 'old'])));
});

test('a member that is not whole is dropped, and one that is aborted does not disturb the others', async () => {
  const folder = scratch();
  const set = new CommitSet();
  const half = await set.open(path.join(folder, 'half.csv'));
  await half.write(Buffer.from('ha'));
  const aborted = await set.open(path.join(folder, 'aborted.csv'));
  await aborted.abort();
  await write(set, path.join(folder, 'out.csv'), 'new');
  await set.publish();
  expect(filesOf(folder)).toEqual({ 'out.csv': 'new' });
});

test.each([
  ['before it', false, []],
  ['while its files are renamed', true, ['.list.csv.kept', '.out.csv.kept']],
])('a checkpoint keeps the files of a run that fails %s', async (_when, isBegun, left) => {
  const folder = scratch();
  const set = new CommitSet();
  const output = await set.open(path.join(folder, 'out.csv'));
  const list = await set.open(path.join(folder, 'list.csv'), { beside: true });
  const held = isBegun ? set.hold() : null;
  await output.abort();
  const keeps = held === null ? await set.hold() : await held;
  await list.abort();
  expect(keeps).toBe(isBegun);
  await set.leave();
  // Hidden names end with the process and the token of the set.
  expect(readdirSync(folder).map((name) => name.replace(/csv\..*\./, 'csv.'))).toEqual(left);
});

test('a new output has the mode of the one that it replaces, and else the one that was asked for', async () => {
  const folder = scratch();
  const [old, fresh] = ['old.csv', 'fresh.csv'].map((name) => path.join(folder, name)) as [string, string];
  writeFileSync(old, 'old', { mode: 0o600 });
  const set = new CommitSet();
  for (const file of [old, fresh]) {
    const sink = await set.open(file, { mode: 0o640 });
    await sink.commit();
  }
  await set.publish();
  expect([statSync(old).mode & 0o777, statSync(fresh).mode & 0o777]).toEqual([0o600, 0o640 & ~process.umask()]);
});

test('a sink that is rewound is written from there', async () => {
  const folder = scratch();
  const set = new CommitSet();
  const sink = await set.open(path.join(folder, 'out.csv'));
  await sink.write(Buffer.from('abcdef'));
  await sink.rewind!(2);
  expect(await sink.blockEnd!()).toBe(2);
  await sink.write(Buffer.from('XY'));
  await sink.commit();
  await set.publish();
  expect(filesOf(folder)).toEqual({ 'out.csv': 'abXY' });
});

test('a folder of the name of an output is refused, and the name stays free', async () => {
  const folder = scratch();
  const out = path.join(folder, 'out.csv');
  mkdirSync(out);
  await expect(new CommitSet().open(out)).rejects.toMatchObject({ code: 'output_exists_as_folder' });
  expect(readdirSync(folder)).toEqual(['out.csv']);
});

test('of interrupted runs that are over the last one stays, with all of its files', async () => {
  const folder = scratch();
  const target = path.join(folder, 'out.csv');
  const mine = await thisOwner();
  // A process of this machine that has ended: no process id is larger than 2^22.
  const over = mine.replace(/-\d+-\d+$/, '-4194999-1');
  const [first, last, running] = ['111111111111', '222222222222', '333333333333'];
  const names = [
    `.out.csv.${over}.${first}.kept`,
    `.out.csv.${over}.${first}.checkpoint`,
    `.out.csv.${over}.${last}.kept`,
    `.out.csv.${mine}.${running}.kept`,
  ];
  for (const [i, name] of names.entries()) {
    writeFileSync(path.join(folder, name), '');
    utimesSync(path.join(folder, name), 1000 + i, 1000 + i);
  }
  await keepLatest(target, names.slice(0, 2));
  expect(readdirSync(folder).sort()).toEqual(names.toSorted());
  await keepLatest(target, names);
  expect(readdirSync(folder).sort()).toEqual(names.slice(2).sort());
});

test.runIf(process.platform === 'linux')('a journal names what is there when its turn has come', async () => {
  const folder = scratch();
  const [out, list] = ['out.csv', 'list.csv'].map((name) => path.join(folder, name)) as [string, string];
  for (const file of [out, list]) writeFileSync(file, 'old');
  const set = new CommitSet();
  await write(set, out, 'new');
  await write(set, list, 'new', true);
  // The commit of another process that runs, with the smallest token: this one makes way until it is gone.
  const [namespace] = (await thisOwner()).split('-');
  const start = fieldsOfStat(readFileSync(`/proc/${process.ppid}/stat`, 'utf8'))[19];
  const other = path.join(folder, `.out.csv.${namespace}-${process.ppid}-${start}.000000000000.commit`);
  writeFileSync(other, '{}');
  let isDone = false;
  const published = set.publish().finally(() => {
    isDone = true;
  });
  const journals = (): string[] =>
    readdirSync(folder)
      .filter((name) => /\.(?:commit|partial)$/.test(name) && path.join(folder, name) !== other)
      .map((name) => {
        try {
          return readFileSync(path.join(folder, name), 'utf8');
        } catch {
          // Renamed meanwhile.
          return '';
        }
      })
      .filter((text) => text.startsWith('{"files"'));
  await expect.poll(() => journals().length).toBe(1);
  writeFileSync(`${out}.theirs`, 'theirs');
  renameSync(`${out}.theirs`, out);
  const theirs = statSync(out).ino;
  rmSync(other);
  let last = '';
  while (!isDone) {
    last = journals()[0] ?? last;
    await new Promise(setImmediate);
  }
  await published;
  const { files } = JSON.parse(last) as { files: { target: string; before: number }[] };
  expect(files.find(({ target }) => target === 'out.csv')!.before).toBe(theirs);
  expect(filesOf(folder)).toEqual({ 'out.csv': 'new', 'list.csv': 'new' });
});
