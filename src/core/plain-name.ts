// Names of files that another file gives: a manifest, a part, a journal or a package. Such a file may come from anybody.
import path from 'node:path';

/** Whether it names a file in a folder that is known, and leads nowhere else. */
export const isPlainName = (name: unknown): name is string =>
  typeof name === 'string' && !/^(?:\.{0,2})$|[/\0]/.test(name) && path.basename(name) === name;

/** Whether it is a path that stays inside a folder that is known. */
export function isInnerPath(name: unknown): name is string {
  if (typeof name !== 'string' || name === '' || name.includes('\0') || path.isAbsolute(name)) return false;
  return path.normalize(name).split(path.sep, 1)[0] !== '..';
}
