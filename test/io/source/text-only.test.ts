// What is no UTF-8 text is known by its first bytes, however they come, and named with what to do; text is left alone.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { fileFault } from '../../../src/core/file-errors.ts';
import { textOnly } from '../../../src/io/source/text-only.ts';
import { endpoint, openSource } from '../../../src/runs/endpoints.ts';
import { inChunks } from '../../support/blocks.ts';
import { scratch } from '../../support/cli.ts';

const TEXT = 'amount,term\n1,2\n';
const utf16 = Buffer.from(TEXT, 'utf16le');
const latin1 = (text: string) => Buffer.from(text, 'latin1');
const utf32 = Buffer.from([...TEXT].flatMap((c) => [c.charCodeAt(0), 0, 0, 0]));

const BINARY: [string, Buffer, RegExp][] = [
  ['gzip', gzipSync(TEXT), /compressed with gzip.*\.gz/],
  ['zstd', zstdCompressSync(TEXT), /compressed with zstd.*\.zst/],
  [
    'zstd with a skippable frame',
    Buffer.concat([latin1('\x53\x2a\x4d\x18\0\0\0\0'), zstdCompressSync(TEXT)]),
    /compressed with zstd/,
  ],
  ['zip, xlsx', latin1('PK\x03\x04\x14\0\x06\0\x08\0'), /zip archive or an Excel workbook.*save the table as CSV/],
  ['xls', latin1('\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1'), /an Excel workbook/],
  ['Parquet', latin1('PAR1\x15\x04\x15\x10'), /a Parquet file.*\.parquet/],
  ['Arrow file', latin1('ARROW1\0\0\xff\xff'), /an Arrow file/],
  ['Arrow stream', latin1('\xff\xff\xff\xff\x10\x01'), /an Arrow file/],
  ['bzip2', latin1('BZh91AY&SY\x12'), /compressed with bzip2.*unpack/],
  ['bzip2 of nothing', latin1('BZh9\x17rE8P\x90'), /compressed with bzip2/],
  ['xz', latin1('\xfd7zXZ\0\0\x04'), /compressed with xz.*unpack/],
  ['lz4', latin1('\x04\x22\x4d\x18\x64\x40'), /compressed with lz4/],
  ['UTF-16 little-endian', Buffer.concat([latin1('\xff\xfe'), utf16]), /UTF-16 text.*UTF-8/],
  ['UTF-16 big-endian', Buffer.concat([latin1('\xfe\xff'), Buffer.from(utf16).swap16()]), /UTF-16 text/],
  ['UTF-16 without a mark', utf16, /UTF-16 text/],
  ['UTF-16 big-endian without a mark', Buffer.from(utf16).swap16(), /UTF-16 text/],
  ['UTF-32 little-endian', Buffer.concat([latin1('\xff\xfe\0\0'), utf32]), /UTF-32 text/],
  ['UTF-32 big-endian', Buffer.concat([latin1('\0\0\xfe\xff'), Buffer.from(utf32).swap32()]), /UTF-32 text/],
];

const read = async (chunks: AsyncIterable<Uint8Array>): Promise<string> => {
  let text = '';
  for await (const chunk of chunks) text += Buffer.from(chunk).toString('latin1');
  return text;
};

test.each(BINARY)('%s', async (_, bytes, words) => {
  for (const size of [1, 3, 100]) {
    await expect(read(textOnly(inChunks(bytes, size), 'x'))).rejects.toMatchObject({
      code: 'invalid_encoding',
      message: expect.stringMatching(words),
    });
  }
  // In a file of a name that says text, read the way of files, and inside gzip.
  for (const [name, packed] of [
    ['in.csv', bytes],
    ['in.csv.gz', gzipSync(bytes)],
  ] as const) {
    const file = path.join(scratch(), name);
    writeFileSync(file, packed);
    const source = await openSource(endpoint(file, {}, 'csv'));
    const { readInto } = source.chunks;
    const reading = readInto ? readInto(new Uint8Array(1000)).then(() => readInto(new Uint8Array(1000))) : read(source.chunks); // biome-ignore format: one line
    await expect(reading).rejects.toMatchObject({ code: 'invalid_encoding', message: expect.stringContaining(file) });
    await source.close();
  }
});

test.each([
  '',
  'a',
  'P',
  'PK,name\n',
  'PAR1,PAR2\n',
  'ARROW1,b\n',
  'BZh1,BZh2\n',
  '\xef\xbb\xbfamount\n',
  '[{"a":1}]',
  '7zip\n',
  '\0',
])('%j is left alone', async (text) => {
  for (const size of [1, 4, 100]) expect(await read(textOnly(inChunks(latin1(text), size), 'x'))).toBe(text);
});

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
  writeFileSync(path.join(folder, 'in.csv'), TEXT);
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
