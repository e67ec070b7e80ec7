// An input that changes while it is read is refused, in formats that are read from start to end and in Parquet alike.
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  linkSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ColumnLines } from '../../../src/formats/columns/column-table.ts';
import { openParquet, openRandomAccess } from '../../../src/formats/parquet/parquet-file.ts';
import { openFile } from '../../../src/io/source/byte-source.ts';
import { scratch } from '../../support/cli.ts';

const FIXTURES = path.join(import.meta.dirname, '../../formats/columns/fixtures');
const WHEN = new Date('2026-01-02T03:04:05Z');

/** Writes the same bytes again, as a program does that updates a file in place. */
const again = (file: string) => writeFileSync(file, readFileSync(file), { flag: 'r+' });
const keepingTime = (change: (file: string) => void) => (file: string) => {
  change(file);
  utimesSync(file, WHEN, WHEN);
};

const CHANGES: [string, (file: string) => void, 'refused' | 'read'][] = [
  ['grows', (file) => appendFileSync(file, '\n'), 'refused'],
  ['grows, and keeps its time', keepingTime((file) => appendFileSync(file, '\n')), 'refused'],
  ['is cut', (file) => truncateSync(file, statSync(file).size - 1), 'refused'],
  ['is written again', again, 'refused'],
  ['is written again, and keeps its time', keepingTime(again), 'refused'],
  ['vanishes', unlinkSync, 'refused'],
  [
    'is replaced by a file of the same content and time',
    (file) => {
      copyFileSync(file, `${file}.new`);
      utimesSync(`${file}.new`, WHEN, WHEN);
      renameSync(`${file}.new`, file);
    },
    'refused',
  ],
  ['gets another link', (file) => linkSync(file, `${file}.link`), 'read'],
  ['gets other permissions', (file) => chmodSync(file, 0o400), 'read'],
  ['stays as it is', () => {}, 'read'],
];

const READERS: [string, (file: string, change: () => void) => Promise<void>][] = [
  [
    'text',
    async (file, change) => {
      const source = await openFile(file, 64);
      let chunks = 0;
      for await (const _ of source.chunks) if (chunks++ === 0) change();
    },
  ],
  [
    'parquet',
    async (name, change) => {
      const file = await openRandomAccess(name);
      try {
        const table = await openParquet(file, {});
        change();
        table.readForModel(new Set(), new Set());
        for await (const _ of new ColumnLines(table));
      } finally {
        await file.close();
      }
    },
  ],
];

test.each(READERS.flatMap(([how, read]) => CHANGES.map(([what, change, then]) => ({ how, what, read, change, then }))))(
  '$how that $what while it is read is $then',
  async ({ read, change, then }) => {
    const folder = scratch();
    const file = path.join(folder, 'in');
    copyFileSync(path.join(FIXTURES, 'pyarrow-zstd-groups.parquet'), file);
    utimesSync(file, WHEN, WHEN);
    // The clock of a file system may tick only every few milliseconds.
    do writeFileSync(path.join(folder, 'clock'), '');
    while (statSync(path.join(folder, 'clock')).ctimeMs <= statSync(file).ctimeMs);
    const reading = read(file, () => change(file));
    if (then === 'read') await expect(reading).resolves.toBeUndefined();
    else await expect(reading).rejects.toMatchObject({ code: 'input_changed' });
  },
);
