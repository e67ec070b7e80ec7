// How much space is left where files are written.
import { statfs } from 'node:fs/promises';
import { startInterval, stopTimer } from '../core/clock.ts';
import { inBackground } from '../core/in-background.ts';
import type { Metrics } from './metrics.ts';

/** Not with every scrape: a network file system that hangs would hold it up. */
const EVERY_MS = 15_000;

/** Looks now and then, until the function given back is called. `folders`: by what they are used for. */
export function watchDisks(
  metrics: Metrics,
  folders: Readonly<Record<string, string>>,
  everyMs = EVERY_MS,
): () => void {
  const asking = new Set<string>();
  const look = async (use: string, folder: string): Promise<void> => {
    if (asking.has(use)) return;
    asking.add(use);
    try {
      const { bavail, bsize } = await statfs(folder);
      metrics.diskFree.set({ use }, bavail * bsize);
    } catch {
      // A folder that is not there has no space: the last number must not stand for it.
      metrics.diskFree.remove({ use });
    } finally {
      asking.delete(use);
    }
  };
  const lookAtAll = (): void => {
    for (const [use, folder] of Object.entries(folders)) inBackground('asking for free space', () => look(use, folder));
  };
  lookAtAll();
  const timer = startInterval(lookAtAll, everyMs);
  timer.unref();
  return () => stopTimer(timer);
}
