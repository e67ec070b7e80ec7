// The value of a YAML file, without positions. The value is cached as JSON, so that later processes need not load the
// YAML library.
import { isDeepStrictEqual } from 'node:util';
import { KeptResults } from '../core/kept-results.ts';
import type { Validated } from './yaml-problem.ts';

/** Must be changed when the same text would be read as another value. */
const RULES = '2';

const nameOf = (text: string): string => KeptResults.nameOf('yaml', RULES, Buffer.from(text));

/** The cached value; undefined if the cache does not contain it. */
export async function keptYamlValue(text: string): Promise<unknown> {
  const known = await KeptResults.ofUser()?.read(nameOf(text));
  return known ? JSON.parse(known.toString()) : undefined;
}

/** Reads a text as `readYaml` does, but uses the cache. */
export async function readYamlValue(file: string, text: string): Promise<Validated<unknown>> {
  const kept = KeptResults.ofUser();
  const name = nameOf(text);
  const known = await keptYamlValue(text);
  if (known !== undefined) return { ok: true, value: known };
  const { readYaml } = await import('./yaml.ts');
  const read = readYaml(file, text);
  if (!read.ok) return read;
  const json = JSON.stringify(read.value);
  // Values that JSON cannot represent are not cached.
  if (json !== undefined && isDeepStrictEqual(JSON.parse(json), read.value)) await kept?.write(name, Buffer.from(json));
  return { ok: true, value: read.value };
}
