// How bytes under a name are read and written, wherever they are stored.
import type { RandomAccess } from '../../formats/parquet/parquet-pages.ts';
import type { ByteRange, ByteSource } from '../../io/source/byte-source.ts';

export interface Transport {
  /**
   * Opens all of it, or some ranges, one behind the other, as they are stored.
   * @throws SluiceError input_not_found | storage_unavailable at once; input_unreadable | input_changed while reading
   */
  open(name: string, readBytes?: number, ranges?: readonly ByteRange[] | null): Promise<ByteSource>;
  /** The names that match a pattern. @throws SluiceError input_not_found: none | storage_unavailable | usage */
  matching(pattern: string): Promise<string[]>;
  /** Bytes; null: it does not exist. @throws SluiceError storage_unavailable */
  size(name: string): Promise<number | null>;
  /** Each chunk is valid until the next one is requested. @throws SluiceError input_not_found | storage_unavailable | input_changed of objects, an error of the file system otherwise */
  bytes(name: string): AsyncIterable<Uint8Array>;
  /** Of a small file or object; null: it does not exist. @throws as `bytes` does otherwise */
  text(name: string): Promise<string | null>;
  /** Writes it whole, or not at all. @throws SluiceError output_* | storage_unavailable */
  put(name: string, text: string): Promise<void>;
  /** Writes it if it does not exist. @throws SluiceError output_* | storage_unavailable */
  putNew(name: string, text: string): Promise<void>;
  /** @throws SluiceError storage_unavailable; Error of the file system */
  remove(name: string): Promise<void>;
  /** Opens it, lets it be used and closes it. @throws SluiceError input_not_found | storage_unavailable; what `use` throws */
  withRandomAccess<T>(name: string, use: (file: RandomAccess) => Promise<T>): Promise<T>;
}
