// Sinks for a single file, which is either complete or absent, and for streams.
import type { ByteSink } from './byte-sink.ts';
import { CommitSet } from './commit-set.ts';
import { targetOf, writeError } from './file-target.ts';

/**
 * Opens `file` for writing under a temporary name; `commit` gives it the final name. An existing path that is not a
 * regular file (a pipe, /dev/null) is written directly. Files that must be published together are opened in a
 * `CommitSet` instead. `mode`: permissions of a new file; default: depends on the umask.
 * @throws SluiceError output_unwritable | output_full | output_exists_as_folder
 */
export async function openFileSink(file: string, mode?: number): Promise<ByteSink> {
  const set = new CommitSet();
  const sink = await set.open(file, mode === undefined ? {} : { mode });
  const { rewind } = sink;
  return {
    revocable: sink.revocable,
    get bytesWritten() {
      return sink.bytesWritten;
    },
    write: (bytes) => sink.write(bytes),
    ...(rewind ? { rewind } : {}),
    commit: async () => {
      await sink.commit();
      await set.publish();
    },
    abort: async () => {
      await sink.abort();
      await set.abort();
    },
  };
}

/** Writes a whole file atomically. @throws SluiceError output_* */
export async function putFile(file: string, text: string): Promise<void> {
  const sink = await openFileSink(file);
  try {
    await sink.write(Buffer.from(text));
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

/** Whether output to this path stays invisible until it is committed; false for pipes and devices. */
export const isRevocable = async (file: string): Promise<boolean> => !(await targetOf(file)).direct;

/** Writes to a stream (standard output) with backpressure. Written bytes cannot be revoked. */
export function openStreamSink(stream: NodeJS.WritableStream, name: string): ByteSink {
  let written = 0;
  let failure: unknown = null;
  stream.on('error', (error) => {
    failure = error;
  });
  return {
    revocable: false,
    get bytesWritten() {
      return written;
    },
    write: (bytes) =>
      new Promise((resolve, reject) => {
        if (failure) reject(writeError(name, failure, 'output_failed'));
        else {
          // The caller may reuse the bytes only after the callback, because the stream may hold them until then.
          stream.write(bytes as Buffer, (error) =>
            error ? reject(writeError(name, error, 'output_failed')) : resolve(),
          );
          written += bytes.length;
        }
      }),
    commit: async () => {},
    abort: async () => {},
  };
}
