// The interface of transports, which read and write bytes by name in one kind of storage.
import type { RandomAccess } from '../../formats/parquet/parquet-pages.ts';
import type { ByteRange, ByteSource } from '../../io/source/byte-source.ts';

export interface Transport {
  /**
   * Opens the raw bytes of a file or object: all bytes, or the concatenation of the given ranges.
   * @throws SluiceError input_not_found | storage_unavailable when opening; input_unreadable | input_changed when
   * reading
   */
  open(name: string, readBytes?: number, ranges?: readonly ByteRange[] | null): Promise<ByteSource>;
  /**
   * Lists the names that match a pattern.
   * @throws SluiceError input_not_found if no name matches | storage_unavailable | usage
   */
  matching(pattern: string): Promise<string[]>;
  /** Size in bytes; null: the file or object does not exist. @throws SluiceError storage_unavailable */
  size(name: string): Promise<number | null>;
  /**
   * Reads the bytes in chunks. A chunk is valid until the next chunk is requested.
   * @throws SluiceError input_not_found | storage_unavailable | input_changed for objects; a file-system error for
   * files
   */
  bytes(name: string): AsyncIterable<Uint8Array>;
  /**
   * The text of a small file or object; null: the file or object does not exist.
   * @throws otherwise the errors of `bytes`
   */
  text(name: string): Promise<string | null>;
  /**
   * Writes the text atomically, replacing an existing file or object.
   * @throws SluiceError output_* | storage_unavailable
   */
  put(name: string, text: string): Promise<void>;
  /** Writes the text atomically unless the file or object exists. @throws SluiceError output_* | storage_unavailable */
  putNew(name: string, text: string): Promise<void>;
  /** Deletes the file or object. @throws SluiceError storage_unavailable; a file-system error for files */
  remove(name: string): Promise<void>;
  /**
   * Opens the file or object, calls `use`, then closes the file or object.
   * @throws SluiceError input_not_found | storage_unavailable; errors of `use`
   */
  withRandomAccess<T>(name: string, use: (file: RandomAccess) => Promise<T>): Promise<T>;
}
