// Reads and writes bytes by name, wherever they are stored.
import type { RandomAccess } from '../../formats/parquet/parquet-pages.ts';
import type { ByteRange, ByteSource } from '../../io/source/byte-source.ts';

export interface Transport {
  /**
   * Opens the raw bytes: all of them, or the given ranges concatenated.
   * @throws SluiceError input_not_found | storage_unavailable at once; input_unreadable | input_changed while reading
   */
  open(name: string, readBytes?: number, ranges?: readonly ByteRange[] | null): Promise<ByteSource>;
  /**
   * Lists the names that match a pattern. @throws SluiceError input_not_found if none matches | storage_unavailable |
   * usage
   */
  matching(pattern: string): Promise<string[]>;
  /** Size in bytes; null: it does not exist. @throws SluiceError storage_unavailable */
  size(name: string): Promise<number | null>;
  /**
   * Each chunk is valid until the next one is requested.
   * @throws SluiceError input_not_found | storage_unavailable | input_changed for objects; a file-system error for
   * files
   */
  bytes(name: string): AsyncIterable<Uint8Array>;
  /** The text of a small file or object; null: it does not exist. @throws otherwise as `bytes` does */
  text(name: string): Promise<string | null>;
  /** Writes the text atomically: all of it or nothing. @throws SluiceError output_* | storage_unavailable */
  put(name: string, text: string): Promise<void>;
  /** Like `put`, but keeps an existing file or object. @throws SluiceError output_* | storage_unavailable */
  putNew(name: string, text: string): Promise<void>;
  /** @throws SluiceError storage_unavailable; a file-system error for files */
  remove(name: string): Promise<void>;
  /**
   * Opens the file or object, calls `use` and closes it. @throws SluiceError input_not_found | storage_unavailable;
   * errors of `use`
   */
  withRandomAccess<T>(name: string, use: (file: RandomAccess) => Promise<T>): Promise<T>;
}
