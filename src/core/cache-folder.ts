// The folder for data that can be recreated at any time.
import { homedir } from 'node:os';
import path from 'node:path';

/** `$XDG_CACHE_HOME/sluice`, or `~/.cache/sluice`. @throws Error if the user has no home folder */
export const cacheFolder = (env: Record<string, string | undefined>): string =>
  path.join(env.XDG_CACHE_HOME ?? path.join(homedir(), '.cache'), 'sluice');
