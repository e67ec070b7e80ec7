// When certificates expire.
import { X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { Metrics } from './metrics.ts';

const BEGIN = '-----BEGIN CERTIFICATE-----';

/** When the first certificate of a chain in PEM expires, ms since 1970. @throws what is no certificate */
export function expiryOf(chain: string): number {
  const all = chain.split(BEGIN).slice(1);
  if (all.length === 0) throw new Error('there is no certificate');
  return Math.min(...all.map((pem) => new X509Certificate(`${BEGIN}${pem}`).validToDate.getTime()));
}

/**
 * Has the metrics read files of certificates again whenever they have changed; the one that expires first counts. One that cannot be
 * read leaves the last answer.
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
