// Whole packages under any id and version, made from the bundled one.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { scratch } from '../cli.ts';

const BUNDLED = path.resolve('src/bundled/credit-default/1');

/** The folder of a package. `description` makes two of the same version differ. */
export function makePackage(id: string, version: string | number, description = 'made for a test'): string {
  const folder = scratch();
  cpSync(BUNDLED, folder, { recursive: true });
  const file = path.join(folder, 'model.yaml');
  const yaml = readFileSync(file, 'utf8')
    .replace('id: credit-default', `id: ${id}`)
    .replace('version: 1', `version: ${version}`)
    .replace(/^description: .*$/m, `description: ${JSON.stringify(description)}`);
  writeFileSync(file, yaml);
  return folder;
}

/** The reference of the package that is meant, or the error as text. */
export const refOf = (resolving: Promise<{ ref: string }>): Promise<string> =>
  resolving.then(
    (m) => m.ref,
    (e: { code: string; message: string }) => `${e.code}: ${e.message}`,
  );

/** The code of the error, or what came instead of one. */
export const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    (value) => value,
    (e: { code?: string }) => e.code ?? e,
  );
