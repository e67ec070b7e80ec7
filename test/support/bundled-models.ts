// Copies of the bundled model and of the sources, while other processes use them.
import { cpSync } from 'node:fs';
import path from 'node:path';

/** Whether a copy takes a file: processes keep others beside the bundled model, and remove them at any moment. */
export const isSource = (name: string): boolean => !['.in-use', '.lock.sqlite'].includes(path.basename(name));

/** Copies the bundled model into a registry. */
export function copyBundled(registry: string): void {
  const id = 'credit-default';
  cpSync(path.resolve('src/bundled', id), path.join(registry, id), { recursive: true, filter: isSource });
}
