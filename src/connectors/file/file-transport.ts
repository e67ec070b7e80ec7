// Transport for local files.
import { randomBytes } from 'node:crypto';
import { glob, link, open, readFile, rm, stat, unlink } from 'node:fs/promises';
import { SluiceError } from '../../core/errors.ts';
import { putFile } from '../../io/sink/file-sink.ts';
import { writeError } from '../../io/sink/file-target.ts';
import { openFile } from '../../io/source/byte-source.ts';
import type { Transport } from '../contract/transport.ts';

const READ_BYTES = 256 * 1024;

export const FILE_TRANSPORT: Transport = {
  open: openFile,
  async matching(pattern) {
    // If a file with this path exists, the path is not a pattern, even if it contains *.
    if (await stat(pattern).catch(() => null)) return [pattern];
    const names: string[] = [];
    for await (const name of glob(pattern)) {
      // A link without a target is an input as well, so that opening it reports its name.
      const found = await stat(name).catch(() => null);
      if (!found?.isDirectory()) names.push(name);
    }
    if (names.length === 0) throw new SluiceError('input_not_found', `no files match ${pattern}`);
    return names;
  },
  size: async (name) => (await stat(name).catch(() => null))?.size ?? null,
  bytes: bytesOfFile,
  async text(name) {
    try {
      return await readFile(name, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw error;
    }
  },
  put: putFile,
  async putNew(name, text) {
    const own = `${name}.${process.pid}-${randomBytes(4).toString('hex')}.tmp`;
    await putFile(own, text);
    try {
      await link(own, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw writeError(name, error, 'output_unwritable');
    } finally {
      await unlink(own).catch(() => {});
    }
  },
  remove: (name) => rm(name, { force: true }),
  async withRandomAccess(name, use) {
    const { openRandomAccess } = await import('../../formats/parquet/parquet-file.ts');
    const file = await openRandomAccess(name);
    try {
      return await use(file);
    } finally {
      await file.close();
    }
  },
};

/**
 * Reads a file into one reused buffer. A Node.js stream would allocate buffers that stay until the next garbage
 * collection, which may happen late while a large file is read.
 */
async function* bytesOfFile(name: string): AsyncGenerator<Uint8Array> {
  await using file = await open(name);
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, READ_BYTES, null);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}
