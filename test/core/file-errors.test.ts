// Faults of the file system are told in words, beside the codes that administrators know.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { fileFault } from '../../src/core/file-system.ts';
import { scratch } from '../support/cli.ts';

test.each([
  ['EMFILE', /EMFILE, this process has too many open files.*ulimit -n/],
  ['ENFILE', /ENFILE, this machine has too many open files/],
  ['ENOSPC', /ENOSPC, no space is left/],
  ['EDQUOT', /EDQUOT, the quota/],
  ['EROFS', /EROFS, the file system is read-only/],
  ['EACCES', /EACCES, no permission/],
  ['EIO', /EIO, the disk failed/],
  ['EBUSY', /^EBUSY$/],
])('%s is told in words', (code, words) => {
  expect(fileFault(Object.assign(new Error('x'), { code }))).toMatch(words);
});

test('a process that may open no more files says so', () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'in.csv'), 'amount\n1\n');
  const program = `
    import { openSync } from 'node:fs';
    import { openFile } from ${JSON.stringify(path.resolve('src/io/source/byte-source.ts'))};
    import { openFileSink } from ${JSON.stringify(path.resolve('src/io/sink/file-sink.ts'))};
    try { for (;;) openSync('/dev/null', 'r'); } catch {}
    for (const open of [() => openFile('in.csv'), () => openFileSink('o.csv')]) await open().catch((e) => console.log(e.message));
  `;
  const script = 'ulimit -n 64; exec "$@"';
  const { stdout } = spawnSync('sh', ['-c', script, 'sh', process.execPath, '--input-type=module-typescript', '-e', program], { cwd: folder, encoding: 'utf8' }); // biome-ignore format: one line
  const lines = stdout.trim().split('\n');
  expect(lines).toEqual([
    expect.stringMatching(/in\.csv.*too many open files/),
    expect.stringMatching(/o\.csv.*too many open files/),
  ]);
});
