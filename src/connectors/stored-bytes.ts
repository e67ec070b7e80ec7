// Reads and writes stored bytes by name, with the transport that is responsible for the name.
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

/** The transport for a name. A name that no other connector serves is a file path. */
export const transportOf = (name: string): Promise<Transport> => (servedBy(name) ?? CONNECTORS.file).transport!();

/** The connector for a name; undefined: the name is a file path. */
const servedBy = (name: string): Connector | undefined =>
  Object.values<Connector>(CONNECTORS).find(({ serves }) => serves?.(name));

/**
 * The name of the file `other` in the folder of `name`.
 * @throws SluiceError input_not_found if `other` would leave the folder
 */
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

/** Like `Transport.open`, for any name. */
export async function openStored(
  name: string,
  readBytes?: number,
  ranges: readonly ByteRange[] | null = null,
): Promise<ByteSource> {
  return (await transportOf(name)).open(name, readBytes, ranges);
}

/** Like `Transport.size`, for any name. */
export const storedSize = async (name: string): Promise<number | null> => (await transportOf(name)).size(name);

/** Like `Transport.bytes`, for any name. */
export async function* storedBytes(name: string): AsyncGenerator<Uint8Array> {
  yield* (await transportOf(name)).bytes(name);
}

/** Like `Transport.text`, for any name. */
export const storedText = async (name: string): Promise<string | null> => (await transportOf(name)).text(name);

/** Like `Transport.remove`, for any name. */
export const removeStored = async (name: string): Promise<void> => (await transportOf(name)).remove(name);

/**
 * The text of a file or object whose name the user gave.
 * @throws SluiceError input_not_found (missing or unreadable) | storage_unavailable
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
 * Writes `text` if the file or object does not exist. Returns the stored text, which is the same for all concurrent
 * writers.
 * @throws SluiceError output_* | storage_unavailable
 */
export async function putFirst(name: string, text: string): Promise<string> {
  await (await transportOf(name)).putNew(name, text);
  return (await storedText(name)) ?? text;
}

/** Like `Transport.put`, for any name. */
export const putStored = async (name: string, text: string): Promise<void> => (await transportOf(name)).put(name, text);

/** Like `Transport.withRandomAccess`, for any name. */
export const withRandomAccess = async <T>(name: string, use: (file: RandomAccess) => Promise<T>): Promise<T> =>
  (await transportOf(name)).withRandomAccess(name, use);

/** Creates the folder of an output file if it is missing. Ignores errors: opening the output reports them. */
export async function makeFolderOf(name: string): Promise<void> {
  if (!servedBy(name)) await mkdir(path.dirname(name), { recursive: true }).catch(() => {});
}
