// Creates the gatekeeper of a service from its configuration, and registers its metrics.
import { readFile } from 'node:fs/promises';
import type { FastifyRequest } from 'fastify';
import type { IssuerConfig, ServerConfig } from '../../../config/server-config.ts';
import { SluiceError } from '../../../core/errors.ts';
import { faultFields, type Log, named, saysOf, words } from '../../../core/log.ts';
import type { Metrics } from '../../../monitor/metrics.ts';
import type { KeyRing } from './api-keys.ts';
import { addressList, clientAddress } from './client-address.ts';
import type { ClientCertificate } from './client-certificate.ts';
import { Gatekeeper } from './gatekeeper.ts';
import { IssuerKeys } from './issuer-keys.ts';
import { TokenIssuer, TokenIssuers } from './token-issuers.ts';

interface GateParts {
  keys: KeyRing;
  metrics: Metrics;
  log: Log;
  certificateOf: (request: FastifyRequest) => ClientCertificate;
}

/** @throws SluiceError usage */
export async function openGate(
  config: ServerConfig,
  { keys, metrics, log, certificateOf }: GateParts,
): Promise<Gatekeeper> {
  const { limits, oidc } = config;
  assertCertificatesShown(config, keys);
  const issuers = new TokenIssuers(await Promise.all(oidc.map((issuer) => openIssuer(issuer, metrics, log))));
  measureIssuers(metrics, issuers);
  return new Gatekeeper({
    keys,
    metrics,
    failuresPerMinute: limits.failed_logins_per_minute_per_address,
    addressOf: readAddresses(config),
    certificateOf,
    ...(oidc.length > 0 ? { issuers } : {}),
  });
}

/** Returns the function that determines the client address. @throws SluiceError usage */
export function readAddresses({ behind_tls_proxy, client_address }: ServerConfig): (request: FastifyRequest) => string {
  if (client_address !== 'x_forwarded_for') return clientAddress(null);
  if (!behind_tls_proxy) {
    throw new SluiceError('usage', 'client_address: x_forwarded_for is trusted only with behind_tls_proxy');
  }
  return clientAddress(addressList('behind_tls_proxy', behind_tls_proxy));
}

/** Rejects a configuration that lists certificates although no client can present one. @throws SluiceError usage */
function assertCertificatesShown({ tls, behind_tls_proxy }: ServerConfig, keys: KeyRing): void {
  if (!keys.namesCertificates || tls?.client_ca !== undefined) return;
  const why = behind_tls_proxy
    ? 'a TLS proxy does not pass them on, and Sluice does not read them from a header'
    : 'tls.client_ca is not set';
  throw new SluiceError('usage', `keys_file lists client certificates, but ${why}`);
}

/**
 * Opens an identity provider. The keys of the provider are fetched in the background, so that the service can start
 * while the provider is unreachable.
 */
async function openIssuer(config: IssuerConfig, metrics: Metrics, log: Log): Promise<TokenIssuer> {
  const name = named(config.name);
  let away = false;
  const keys = new IssuerKeys({
    issuer: config.issuer,
    jwksUrl: config.jwks_url ?? null,
    ca: config.ca === undefined ? null : await readAuthorities(config.ca),
    refreshMs: config.keys_refresh_ms,
    cooldownMs: config.keys_cooldown_ms,
    maxAgeMs: Math.max(config.keys_max_age_ms, config.keys_refresh_ms),
    onFetch: (outcome, error) => {
      metrics.issuerReads.inc({ issuer: config.name, outcome });
      if (outcome === 'failed' && !away) {
        log('warn', 'issuer_unreachable', words`the signing keys of ${name} cannot be read: ${saysOf(error)}`, {
          issuer: name,
          ...faultFields(error),
        });
      } else if (outcome === 'ok' && away) {
        log('info', 'issuer_reached', words`the signing keys of ${name} can be read again`, { issuer: name });
      }
      away = outcome === 'failed';
    },
  });
  keys.ready().catch(() => {});
  return new TokenIssuer(config, keys);
}

async function readAuthorities(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new SluiceError('usage', `oidc: ca: ${file} cannot be read`, { cause });
  }
}

function measureIssuers(metrics: Metrics, issuers: TokenIssuers): void {
  metrics.onScrape(() => {
    for (const { config, keys } of issuers.all) {
      const age = keys.ageSeconds;
      if (age !== null) metrics.issuerKeysAge.set({ issuer: config.name }, age);
    }
  });
}
