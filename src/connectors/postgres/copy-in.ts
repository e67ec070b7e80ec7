// Sends bytes to COPY … FROM STDIN, which is the fastest way to load rows into a table.
import { from as copyFrom } from 'pg-copy-streams';
import type { Database } from './database.ts';

export interface CopyIn {
  /** Sends bytes, which the caller may reuse when the promise resolves. @throws the error that ended the transfer */
  write(bytes: Uint8Array): Promise<void>;
  /** Ends the transfer. Resolves with the number of rows when the database has received all of them. */
  end(): Promise<number>;
}

/** Starts a transfer. The connection accepts no other statement until the transfer ends. */
export function copyIn(client: Database, statement: string): CopyIn {
  const stream = client.query(copyFrom(statement));
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  stream.on('error', (error) => failed.reject(error));
  const finished = new Promise<void>((resolve) => stream.on('finish', () => resolve()));
  return {
    async write(bytes) {
      // The bytes are copied, because the socket buffers unsent bytes.
      const copy = Buffer.from(bytes);
      await Promise.race([failed.promise, new Promise<void>((resolve) => stream.write(copy, () => resolve()))]);
    },
    async end() {
      stream.end();
      await Promise.race([failed.promise, finished]);
      return stream.rowCount;
    },
  };
}
