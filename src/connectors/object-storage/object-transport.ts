// Transport for objects in S3, Azure Blob Storage and Google Cloud Storage.
import { SluiceError } from '../../core/errors.ts';
import { CommitSet } from '../../io/sink/commit-set.ts';
import { matchingObjects, objectSize, openObject } from '../../storage/object-source.ts';
import { removeObject } from '../../storage/object-upload.ts';
import { storeOf } from '../../storage/providers.ts';
import type { Transport } from '../contract/transport.ts';

export const OBJECT_TRANSPORT: Transport = {
  open: (name, _readBytes, ranges = null) => openObject(name, ranges),
  async matching(pattern) {
    const names = await matchingObjects(pattern);
    if (names.length === 0) throw new SluiceError('input_not_found', `no objects match ${pattern}`);
    return names;
  },
  size: objectSize,
  bytes: bytesOfObject,
  async text(name) {
    if ((await objectSize(name)) === null) return null;
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of bytesOfObject(name)) text += decoder.decode(chunk, { stream: true });
    return text + decoder.decode();
  },
  async put(name, text) {
    const set = new CommitSet();
    try {
      const sink = await set.open(name);
      await sink.write(Buffer.from(text));
      await sink.commit();
      await set.publish();
    } finally {
      await set.abort();
    }
  },
  async putNew(name, text) {
    const { store, key } = await storeOf(name);
    await store.put(key, Buffer.from(text), { ifNone: true });
  },
  remove: removeObject,
  async withRandomAccess(name, use) {
    const { slicedAccess } = await import('../../formats/parquet/parquet-file.ts');
    const source = await openObject(name);
    try {
      return await use(slicedAccess(name, source.totalBytes, source.slice));
    } finally {
      await source.close();
    }
  },
};

async function* bytesOfObject(name: string): AsyncGenerator<Uint8Array> {
  const source = await openObject(name);
  try {
    yield* source.chunks;
  } finally {
    await source.close();
  }
}
