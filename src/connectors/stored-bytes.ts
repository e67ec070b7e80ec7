// Reads and writes stored bytes by name, through the transport of the connector that serves the name.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import { isPlainName } from '../core/file-names.ts';
import { fileFault } from '../core/file-system.ts';
import type { RandomAccess } from '../formats/parquet/parquet-pages.ts';
import type { ByteRange, ByteSource } from '../io/source/byte-source.ts';
import { CONNECTORS } from './connectors.ts';
import type { Connector } from './contract/connector.ts';
import type { Transport } from './contract/transport.ts';

/** The transport of a name; names that no other connector serves are file paths. */
export const transportOf = (name: string): Promise<Transport> => (servedBy(name) ?? CONNECTORS.file).transport!();

/** The connector of a name that is not a file path. */
const servedBy = (name: string): Connector | undefined =>
  Object.values<Connector>(CONNECTORS).find(({ serves }) => serves?.(name));

/** Another name in the same folder. @throws SluiceError input_not_found if `other` would leave the folder */
export function besideStored(name: string, other: string): string {
  if (!isPlainName(other)) {
    throw new SluiceError(
      'input_not_found',
      `${JSON.stringify(other)} is not the name of a file in the folder of ${name}`,
    );
  }
  const hasScheme = /^\w+:\/\//.test(name);
  return hasScheme ? `${name.slice(0, name.lastIndexOf('/'))}/${other}` : path.join(path.dirname(name), other);
}

/** As `Transport.open`. */
export async function openStored(
  name: string,
  readBytes?: number,
  ranges: readonly ByteRange[] | null = null,
): Promise<ByteSource> {
  return (await transportOf(name)).open(name, readBytes, ranges);
}

/** As `Transport.size`. */
export const storedSize = async (name: string): Promise<number | null> => (await transportOf(name)).size(name);

/** As `Transport.bytes`. */
export async function* storedBytes(name: string): AsyncGenerator<Uint8Array> {
  yield* (await transportOf(name)).bytes(name);
}

/** As `Transport.text`. */
export const storedText = async (name: string): Promise<string | null> => (await transportOf(name)).text(name);

/** As `Transport.remove`. */
export const removeStored = async (name: string): Promise<void> => (await transportOf(name)).remove(name);

/**
 * The text of a file that the user named. @throws SluiceError input_not_found (missing or unreadable) |
 * storage_unavailable
 */
export async function namedText(name: string): Promise<string> {
  let text: string | null;
  try {
    text = await storedText(name);
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw new SluiceError('input_not_found', `${name} cannot be opened: ${fileFault(cause)}`, { cause });
  }
  if (text === null) throw new SluiceError('input_not_found', `${name} does not exist`);
  return text;
}

/**
 * Writes `text` if the file does not exist, and returns the stored content, which is the same for concurrent writers.
 * @throws SluiceError output_* | storage_unavailable
 */
export async function putFirst(name: string, text: string): Promise<string> {
  await (await transportOf(name)).putNew(name, text);
  return (await storedText(name)) ?? text;
}

/** As `Transport.put`. */
export const putStored = async (name: string, text: string): Promise<void> => (await transportOf(name)).put(name, text);

/** As `Transport.withRandomAccess`. */
export const withRandomAccess = async <T>(name: string, use: (file: RandomAccess) => Promise<T>): Promise<T> =>
  (await transportOf(name)).withRandomAccess(name, use);

/** Creates the folder of an output file if it is missing. Opening the output reports errors. */
export async function makeFolderOf(name: string): Promise<void> {
  if (!servedBy(name)) await mkdir(path.dirname(name), { recursive: true }).catch(() => {});
}
