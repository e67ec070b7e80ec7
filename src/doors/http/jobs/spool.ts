// Writes the body of a request to where jobs have their uploads, or only looks at it: either way its hash says which body it was.
import { createHash } from 'node:crypto';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import type { RequestBody } from '../wire/request-body.ts';
import type { GrowFile } from './job-quota.ts';

export interface Spooled {
  bytes: number;
  /** SHA-256 of the decoded body, hexadecimal. */
  sha256: string;
}

/** There for good when it resolves; nothing is left when it throws. @throws what the body, the quota and the sink throw */
export async function spool(body: RequestBody, upload: ByteSink, grow: GrowFile): Promise<Spooled> {
  const hash = createHash('sha256');
  let bytes = 0;
  try {
    for await (const chunk of body.chunks()) {
      bytes += chunk.length;
      await grow(chunk.length);
      hash.update(chunk);
      await upload.write(chunk);
    }
    await upload.commit();
  } catch (error) {
    await upload.abort();
    throw error;
  }
  return { bytes, sha256: hash.digest('hex') };
}

/** SHA-256 of a body that is not kept. @throws what the body throws */
export async function hashOf(body: RequestBody): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of body.chunks()) hash.update(chunk);
  return hash.digest('hex');
}
