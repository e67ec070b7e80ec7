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

/** Has the metrics read a file of certificates again whenever it has changed. What cannot be read leaves the last answer. */
export function measureCertificate(metrics: Metrics, use: string, file: string): void {
  let read = Number.NaN;
  metrics.onScrape(async () => {
    const { mtimeMs } = await stat(file);
    if (mtimeMs === read) return;
    metrics.certificateExpiry.set({ use }, expiryOf(await readFile(file, 'utf8')) / 1000);
    read = mtimeMs;
  });
}
