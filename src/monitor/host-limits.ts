// Measures the expiry of certificates and the free space of disks that are written to.
import { X509Certificate } from 'node:crypto';
import { readFile, stat, statfs } from 'node:fs/promises';
import { inBackground } from '../core/async.ts';
import { startInterval, stopTimer } from '../core/clock.ts';
import type { Metrics } from './metrics.ts';

const BEGIN = '-----BEGIN CERTIFICATE-----';

/** Expiry of the first certificate in a PEM chain to expire, ms since 1970. @throws Error: not a certificate */
export function expiryOf(chain: string): number {
  const all = chain.split(BEGIN).slice(1);
  if (all.length === 0) throw new Error('no certificate is configured');
  return Math.min(...all.map((pem) => new X509Certificate(`${BEGIN}${pem}`).validToDate.getTime()));
}

/**
 * Reports the earliest expiry of certificate files, which are reloaded when they change. An unreadable file leaves the
 * last value unchanged.
 */
export function measureCertificates(metrics: Metrics, use: string, files: readonly string[]): void {
  const known = new Map<string, { mtimeMs: number; expiry: number }>();
  const look = async (file: string): Promise<void> => {
    const { mtimeMs } = await stat(file);
    if (known.get(file)?.mtimeMs !== mtimeMs)
      known.set(file, { mtimeMs, expiry: expiryOf(await readFile(file, 'utf8')) });
  };
  if (files.length === 0) return;
  metrics.onScrape(async () => {
    const looks = await Promise.allSettled(files.map(look));
    const first = Math.min(...[...known.values()].map(({ expiry }) => expiry));
    if (known.size > 0) metrics.certificateExpiry.set({ use }, first / 1000);
    for (const { status } of looks)
      if (status === 'rejected') metrics.background.inc({ task: 'reading a certificate' });
  });
}

/** Interval of the checks. They do not run during a scrape, because a hanging network file system would block it. */
const EVERY_MS = 15_000;

/** Checks periodically until the returned function is called. `folders`: folders by their purpose. */
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
      // Removes the last value, because a missing folder has no free space.
      metrics.diskFree.remove({ use });
    } finally {
      asking.delete(use);
    }
  };
  const lookAtAll = (): void => {
    for (const [use, folder] of Object.entries(folders)) inBackground('query the free space', () => look(use, folder));
  };
  lookAtAll();
  const timer = startInterval(lookAtAll, everyMs);
  timer.unref();
  return () => stopTimer(timer);
}
