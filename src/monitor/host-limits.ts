// Measures when certificates expire, and the free space of disks to which this process writes.
import { X509Certificate } from 'node:crypto';
import { readFile, stat, statfs } from 'node:fs/promises';
import { inBackground } from '../core/async.ts';
import { startInterval, stopTimer } from '../core/clock.ts';
import type { Metrics } from './metrics.ts';

const BEGIN = '-----BEGIN CERTIFICATE-----';

/**
 * The earliest expiry of a certificate in a PEM chain, ms since 1970.
 * @throws Error if the text contains no certificate
 */
export function expiryOf(chain: string): number {
  const all = chain.split(BEGIN).slice(1);
  if (all.length === 0) throw new Error('no certificate is configured');
  return Math.min(...all.map((pem) => new X509Certificate(`${BEGIN}${pem}`).validToDate.getTime()));
}

/**
 * Reports the earliest expiry among certificate files. A file is read again when it changes; while it is unreadable,
 * the last value is kept.
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

/**
 * Interval of the checks in ms. The checks do not run during a scrape, because a network file system that hangs would
 * block the scrape.
 */
const EVERY_MS = 15_000;

/** Checks free space periodically, until the returned function is called. `folders`: folders by their purpose. */
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
      // If the folder is missing, its last value is removed.
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
