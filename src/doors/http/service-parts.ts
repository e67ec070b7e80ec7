// Parts of the service: models, keys, the listener and its certificate.
import { isIPv6 } from 'node:net';
import { availableParallelism } from 'node:os';
import { SCOPES } from '../../config/scopes.ts';
import type { ServerConfig } from '../../config/server-config.ts';
import { faultFields, type Log, SILENT, saysOf, words } from '../../core/log.ts';
import { hostEvents, measureHost } from '../../engine/host-events.ts';
import { ModelHost } from '../../engine/model-host.ts';
import type { Registry } from '../../model/registry/registry.ts';
import { expiryOf } from '../../monitor/host-limits.ts';
import type { Metrics } from '../../monitor/metrics.ts';
import { tryPackage } from '../../onboarding/trial.ts';
import type { KeyRing } from './access/api-keys.ts';
import { hashToken } from './access/keys-file.ts';
import type { OpenedAudit } from './access/open-audit.ts';
import { type Certificate, createListener, followCertificate, type Listener } from './wire/listener.ts';

/**
 * Reports the expiry of the certificate. If the certificate comes from files, reloads it when they change. Returns a
 * function that stops both.
 */
export function useCertificate(
  certificate: Certificate,
  { config: { tls }, dev = false, log = SILENT }: { config: ServerConfig; dev?: boolean; log?: Log },
  { metrics, listener }: { metrics: Metrics; listener: Listener },
): () => void {
  const measure = ({ cert, ca }: Certificate) => {
    metrics.certificateExpiry.set({ use: 'server' }, expiryOf(cert) / 1000);
    if (ca !== undefined) metrics.certificateExpiry.set({ use: 'client_ca' }, expiryOf(ca) / 1000);
  };
  measure(certificate);
  if (dev || !tls) return () => {};
  const onCertificate = (next: Certificate) => {
    listener.replaceCertificate(next);
    measure(next);
  };
  return followCertificate(tls, onCertificate, (e) => {
    log('error', 'certificate_kept', words`keeping the previous certificate: ${saysOf(e)}`, faultFields(e));
  });
}

/** A host as it is written in a URL (RFC 3986). */
export const hostInUrl = (host: string): string => (isIPv6(host) ? `[${host}]` : host);

export function listenerOf(
  { tls, timeouts, limits }: ServerConfig,
  certificate: Certificate | null,
  metrics: Metrics,
): Listener {
  return createListener({
    ...(certificate ? { certificate } : {}),
    requireClient: tls?.client_certificates === 'require',
    onRefused: (code) => metrics.httpErrors.inc({ code }),
    headersTimeoutMs: timeouts.head_ms,
    keepAliveMs: timeouts.keep_alive_ms,
    headerBytes: limits.header_bytes,
  });
}

export function openHost(
  config: ServerConfig,
  registry: Registry,
  { metrics, log }: { metrics: Metrics; log: Log },
): ModelHost {
  const host = new ModelHost({
    registry,
    workers: config.workers ?? Math.max(1, availableParallelism()),
    engine: config.evaluator,
    max: config.models_max,
    ...(config.explain_memory_bytes === undefined ? {} : { explainMemoryBytes: config.explain_memory_bytes }),
    keep: config.preload,
    tryOut: tryPackage,
    ...hostEvents(metrics, log),
  });
  measureHost(metrics, host);
  return host;
}

/** Fills the key ring. `from`: the keys file or, with --dev, the token of the only key. @throws SluiceError usage */
export async function fillKeys(
  keys: KeyRing,
  from: { file: string } | { token: string },
  { metrics, log, audit: { trail } }: { metrics: Metrics; log: Log; audit: OpenedAudit },
): Promise<void> {
  if ('token' in from) keys.replace([{ name: 'dev', sha256: hashToken(from.token), scopes: [...SCOPES] }]);
  else {
    await keys.follow(
      from.file,
      (error) => log('error', 'keys_kept', words`keeping the previous keys: ${saysOf(error)}`, faultFields(error)),
      (before, after) => trail?.keysChanged(before, after),
    );
  }
  metrics.onScrape(() => {
    metrics.keyExpiry.reset();
    for (const [key, at] of keys.expiries) metrics.keyExpiry.set({ key }, at / 1000);
  });
}
