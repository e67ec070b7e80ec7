// Writes the body of a request to the disk, or only looks at it: either way its hash says which body it was.
import { createHash } from 'node:crypto';
import { open, unlink } from 'node:fs/promises';
import path from 'node:path';
import { syncFolder } from '../../../io/sink/commit-journal.ts';
import { writeAll } from '../../../io/sink/write-all.ts';
import type { RequestBody } from '../wire/request-body.ts';
import type { GrowingFile } from './job-quota.ts';

export interface Spooled {
  bytes: number;
  /** SHA-256 of the decoded body, hexadecimal. */
  sha256: string;
}

/** On the disk for good when it resolves; nothing is left when it throws. @throws what the body, the quota and the disk throw */
export async function spool(body: RequestBody, file: string, room: GrowingFile): Promise<Spooled> {
  const hash = createHash('sha256');
  let bytes = 0;
  const handle = await open(file, 'wx', 0o600);
  try {
    for await (const chunk of body.chunks()) {
      bytes += chunk.length;
      room.grow(chunk.length);
      hash.update(chunk);
      await writeAll(handle, chunk, null);
    }
    await handle.sync();
    // Its name, too, survives a power cut: the table says that it is there.
    await syncFolder(path.dirname(file));
  } catch (error) {
    await unlink(file).catch(() => {});
    throw error;
  } finally {
    await handle.close();
  }
  return { bytes, sha256: hash.digest('hex') };
}

/** SHA-256 of a body that is not kept. @throws what the body throws */
export async function hashOf(body: RequestBody): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of body.chunks()) hash.update(chunk);
  return hash.digest('hex');
}
