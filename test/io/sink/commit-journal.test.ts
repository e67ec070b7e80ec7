// A commit that stopped anywhere is completed, or undone, from what is in the folder: every state that its steps go through, both ways.
import { linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { SILENT } from '../../../src/core/log.ts';
import {
  type CommitFile,
  dropBackups,
  hasFiles,
  hiddenBeside,
  readJournal,
  rollBack,
  rollForward,
  withPredecessors,
  writeJournal,
} from '../../../src/io/sink/commit-journal.ts';
import { thisOwner } from '../../../src/io/sink/owner.ts';
import { recover } from '../../../src/io/sink/temporary-files.ts';
import { scratch } from '../../support/cli.ts';

const inodeOf = (file: string): number => statSync(file).ino;

interface Shape {
  name: string;
  /** Name, what was there before, and whether the commit only takes it away. */
  files: readonly (readonly [name: string, before: 'old' | null, removes?: 'removes'])[];
  links?: false;
}

const SHAPES: readonly Shape[] = [
  { name: 'over an earlier run', files: [['out.csv', 'old'], ['list.csv', 'old'], ['proof/out.json', 'old']] },
  { name: 'into an empty folder', files: [['out.csv', null], ['list.csv', null], ['proof/out.json', null]] },
  { name: 'with a list that was not there', files: [['out.csv', 'old'], ['list.csv', null]] },
  { name: 'with a list that goes', files: [['out.csv', 'old'], ['list.csv', 'old', 'removes']] },
  { name: 'two outputs', files: [['out.csv', 'old'], ['out.2.csv', null], ['list.csv', 'old']] },
  { name: 'without hard links', files: [['out.csv', 'old'], ['list.csv', 'old']], links: false },
]; // biome-ignore format: a table

/** What is visible, name → content. */
function visible(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  const shown = names.filter(
    (name) => !path.basename(name).startsWith('.') && statSync(path.join(folder, name)).isFile(),
  );
  return Object.fromEntries(shown.sort().map((name) => [name, readFileSync(path.join(folder, name), 'utf8')]));
}
const hidden = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => path.basename(name).startsWith('.'));

interface Commit {
  folder: string;
  files: CommitFile[];
  /** What moves the files, in its order. */
  steps: (() => void)[];
  before: Record<string, string>;
  after: Record<string, string>;
}

async function begin({ files, links }: Shape): Promise<Commit> {
  const folder = scratch();
  mkdirSync(path.join(folder, 'proof'));
  const staged: CommitFile[] = [];
  for (const [name, before, removes] of files) {
    const target = path.join(folder, name);
    if (before !== null) writeFileSync(target, before);
    const temporary = removes ? null : `${hiddenBeside(target)}new`;
    if (temporary !== null) writeFileSync(temporary, 'new');
    const after = temporary === null ? null : inodeOf(temporary);
    const backup = `${hiddenBeside(target)}before`;
    staged.push({ target, temporary, backup, before: null, after, beside: !name.startsWith('out.') });
  }
  const before = visible(folder);
  const planned = await withPredecessors(staged);
  const beside = planned.filter((f) => f.beside);
  const outputs = planned.filter((f) => !f.beside);
  const away = ({ target, backup, before }: CommitFile) => (before === null ? [] : [() => renameSync(target, backup)]);
  const keep = ({ target, backup, before }: CommitFile) => (before === null ? [] : [() => linkSync(target, backup)]);
  const place = ({ target, temporary }: CommitFile) =>
    temporary === null ? [] : [() => renameSync(temporary, target)];
  const replace = (f: CommitFile) => [...(links === false ? away(f) : keep(f)), ...place(f)];
  return {
    folder,
    files: planned,
    steps: [...beside.flatMap(away), ...outputs.flatMap(replace), ...beside.flatMap(place)],
    before,
    after: Object.fromEntries(files.flatMap(([name, , removes]) => (removes ? [] : [[name, 'new']]))),
  };
}

/** Both ways from each state, and again from the state that they end in. */
async function everyState(shape: Shape, work: (commit: Commit, where: string) => Promise<void>): Promise<void> {
  const { steps } = await begin(shape);
  for (let done = 0; done <= steps.length; done++) {
    const commit = await begin(shape);
    for (const step of commit.steps.slice(0, done)) step();
    await work(commit, `after ${done} of ${steps.length} steps`);
  }
}

test.each(SHAPES)('$name: completed from every state', async (shape) => {
  await everyState(shape, async ({ folder, files, after }, where) => {
    for (const time of ['once', 'twice']) {
      await rollForward(files);
      expect([where, time, visible(folder)]).toEqual([where, time, after]);
    }
    expect([where, await hasFiles(files)]).toEqual([where, true]);
    await dropBackups(files);
    expect([where, visible(folder), hidden(folder)]).toEqual([where, after, []]);
  });
});

test.each(SHAPES)('$name: undone from every state', async (shape) => {
  await everyState(shape, async ({ folder, files, before }, where) => {
    for (const time of ['once', 'twice']) {
      await rollBack(files);
      expect([where, time, visible(folder), hidden(folder)]).toEqual([where, time, before, []]);
    }
    expect([where, await hasFiles(files)]).toEqual([where, false]);
  });
});

test('what another run put there meanwhile is neither kept as a predecessor nor removed', async () => {
  const { folder, files } = await begin(SHAPES[0]!);
  for (const { target } of files) {
    // A file of its own, as another commit leaves it.
    writeFileSync(`${target}.other`, 'other');
    renameSync(`${target}.other`, target);
  }
  const other = visible(folder);
  await rollBack(files);
  expect([visible(folder), hidden(folder)]).toEqual([other, []]);
});

test('a journal gives back its files, wherever the folder is seen', async () => {
  const { folder, files } = await begin(SHAPES[0]!);
  const beside = (name: string) => `${hiddenBeside(path.join(folder, 'out.csv'))}${name}`;
  await writeJournal(beside('commit'), beside('aside'), files);
  expect(await readJournal(beside('commit'))).toEqual(files);
  const moved = path.join(scratch(), 'moved');
  renameSync(folder, moved);
  const there = (file: string) => path.join(moved, path.relative(folder, file));
  const seen = files.map((f) => ({ ...f, target: there(f.target), temporary: there(f.temporary!), backup: there(f.backup) })); // biome-ignore format: one line
  expect(await readJournal(there(beside('commit')))).toEqual(seen);
  await rollForward(seen);
  await dropBackups(seen);
  rmSync(there(beside('commit')));
  expect([new Set(Object.values(visible(moved))), hidden(moved)]).toEqual([new Set(['new']), []]);
});

test.each([
  ['a temporary file of another output', { temporary: '.other.csv.new' }],
  ['a temporary file of another folder', { temporary: '../.out.csv.new' }],
  ['a backup that is no hidden file', { backup: 'accounts.csv' }],
  ['a backup of another folder', { backup: 'proof/.out.csv.before' }],
])('a journal that names %s is none of ours', async (_, change) => {
  const folder = scratch();
  const journal = path.join(folder, 'journal');
  const entry = { target: 'out.csv', temporary: '.out.csv.new', backup: '.out.csv.before', before: null, after: 1, beside: false }; // biome-ignore format: one line
  writeFileSync(journal, JSON.stringify({ files: [entry] }));
  expect(await readJournal(journal)).toHaveLength(1);
  writeFileSync(journal, JSON.stringify({ files: [entry, { ...entry, ...change }] }));
  expect(await readJournal(journal)).toBe(null);
  writeFileSync(journal, '{"files":');
  expect(await readJournal(journal)).toBe(null);
});

test('a journal that its owner removed after the folder was listed is no error: the owner completed its commit', async () => {
  const folder = scratch();
  const target = path.join(folder, 'out.csv');
  const [namespace] = (await thisOwner()).split('-');
  // No process has this PID.
  const owner = `${namespace}-4194304-1`;
  const entries = ['commit', 'undo'].map((kind) => `.out.csv.${owner}.0123456789ab.${kind}`);
  await expect(recover(target, entries, SILENT)).resolves.toBe(true);
  expect(readdirSync(folder)).toEqual([]);
});
