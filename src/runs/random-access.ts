// Any part of a file or an object, for what is read from its end.
import type { RandomAccess } from '../io/columns/parquet-pages.ts';
import type { ByteSource } from '../io/source/byte-source.ts';
import { isObject } from '../storage/objects.ts';

/** Of what is no file of this machine. `byteLength`: of all of it. */
export const slicedAccess = (
  name: string,
  byteLength: number,
  slice: NonNullable<ByteSource['slice']>,
): RandomAccess => ({
  name,
  byteLength,
  read: async (target, position) => target.set(await slice(position, position + target.length)),
});

/** Opens it, lets it be used and closes it. @throws SluiceError input_not_found | storage_unavailable; what `use` throws */
export async function withRandomAccess<T>(name: string, use: (file: RandomAccess) => Promise<T>): Promise<T> {
  if (isObject(name)) {
    const { openObject } = await import('../storage/object-source.ts');
    const source = await openObject(name);
    try {
      return await use(slicedAccess(name, source.totalBytes, source.slice));
    } finally {
      await source.close();
    }
  }
  const { openRandomAccess } = await import('../io/columns/parquet-file.ts');
  const file = await openRandomAccess(name);
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}
