// Starts the HTTP service and stops it gracefully.
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ServerConfig } from '../../config/server-config.ts';
import { epochMs, sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { assertUsable } from '../../core/file-system.ts';
import { faultFields, type Log, named, SILENT, saysOf, words } from '../../core/log.ts';
import type { Tracer } from '../../core/tracing.ts';
import { keepLoaded, type ModelHost } from '../../engine/model-host.ts';
import type { Registry } from '../../model/registry/registry.ts';
import { watchDisks } from '../../monitor/host-limits.ts';
import { Metrics } from '../../monitor/metrics.ts';
import { counted } from '../../monitor/open-log.ts';
import { type FaultKind, hearBackgroundFaults } from '../../monitor/process-faults.ts';
import { KeyRing } from './access/api-keys.ts';
import { newToken } from './access/keys-file.ts';
import { type OpenedAudit, openAudit } from './access/open-audit.ts';
import { openGate } from './access/open-gate.ts';
import { buildServer, type SluiceServer } from './server.ts';
import { fillKeys, hostInUrl, listenerOf, openHost, useCertificate } from './service-parts.ts';
import { devCertificate, type Listener, proxyCheck, readCertificate } from './wire/listener.ts';

export interface ServeOptions {
  config: ServerConfig;
  registry: Registry;
  /** Whether to listen only on loopback, with a certificate and a key that are valid only for this process. */
  dev?: boolean;
  /** The service sets `hear`, which is called with the outcome of every lookup in a remote registry. */
  lookups?: { hear: (outcome: 'ok' | 'stale' | 'failed') => void };
  /** The service sets `hear`, which is called for every uncaught error, to count it. */
  faults?: { hear: (kind: FaultKind) => void };
  log?: Log;
  tracer?: Tracer | null;
}

export interface RunningService {
  url: string;
  /** With --dev: the token of the only key. */
  token: string | null;
  /** With --dev: the certificate, which clients must trust. */
  certificate: string | null;
  /**
   * Stops the service. /readyz reports unready, new work is rejected, and running responses may finish within the
   * deadline. Then everything is closed. Idempotent.
   */
  stop(): Promise<void>;
}

/** Everything that must be closed when the service stops. */
interface Parts {
  host: ModelHost;
  keys: KeyRing;
  listener: Listener;
  server: SluiceServer;
  audit: OpenedAudit;
  /** Stops watching files, disk space and models. */
  unfollow: () => void;
  /** Stops listening for failures of background work. */
  unhear: () => void;
}

/** @throws SluiceError usage | folder_unusable | folder_in_use | model_* */
export async function serve(options: ServeOptions): Promise<RunningService> {
  const { config, dev = false } = options;
  if (!dev && !config.tls && !config.behind_tls_proxy) {
    throw new SluiceError('usage', 'serve needs tls (certificate and key), behind_tls_proxy, or --dev');
  }
  if (config.tls?.client_crl !== undefined && config.tls.client_ca === undefined)
    throw new SluiceError('usage', 'tls.client_crl requires tls.client_ca');
  if (config.tls && config.behind_tls_proxy)
    throw new SluiceError('usage', 'tls and behind_tls_proxy exclude each other');
  /** Functions that undo the parts started so far. If the start fails, these functions are called in reverse order. */
  const undo: (() => unknown)[] = [];
  try {
    return await start(options, undo);
  } catch (error) {
    for (const end of undo.reverse()) await end();
    throw error;
  }
}

async function start(options: ServeOptions, undo: (() => unknown)[]): Promise<RunningService> {
  const { config, registry, dev = false, tracer = null } = options;
  await assertUsable('spill.folder', config.spill.folder ?? tmpdir());
  const cache = config.registry_options.cache_folder;
  if (cache !== undefined) await assertUsable('registry_options.cache_folder', cache);
  const metrics = new Metrics('serve');
  // These gauges must start at 0; each scrape sets the other gauges.
  for (const level of [metrics.uploads, metrics.spilled]) level.set(0);
  const log = counted(options.log ?? SILENT, metrics);
  const unhear = hearBackgroundFaults(log, (task) => metrics.background.inc({ task }));
  undo.push(unhear);
  if (options.faults) options.faults.hear = (kind) => metrics.processFaults.inc({ kind });
  if (options.lookups) options.lookups.hear = (outcome) => metrics.lookups.inc({ outcome });
  const audit = await openAudit(config, { metrics, log });
  undo.push(() => audit.close());
  const host = openHost(config, registry, { metrics, log });
  undo.push(() => host.close());
  const keys = new KeyRing();
  undo.push(() => keys.close());
  const token = dev ? newToken() : null;
  await fillKeys(keys, token ? { token } : { file: config.keys_file }, { metrics, log, audit });

  const behindProxy = !dev && config.behind_tls_proxy ? config.behind_tls_proxy : null;
  const certificate = behindProxy ? null : dev ? await devCertificate() : await readCertificate(config.tls!);
  const listener = listenerOf(config, certificate, metrics);
  const server = await buildServer({
    config,
    host,
    gatekeeper: await openGate(config, {
      keys,
      metrics,
      log,
      certificateOf: (request) => listener.clientOf(request.raw.socket),
    }),
    audit: audit.trail,
    metrics,
    log,
    tracer,
    serverFactory: listener.factory as never,
    ...(behindProxy ? { assertSecure: proxyCheck(behindProxy) } : {}),
  });
  undo.push(() => server.app.close());
  const stopDisks = watchDisks(metrics, disksOf(config));
  undo.push(stopDisks);
  const unfollowCertificate = certificate
    ? useCertificate(certificate, { ...options, log }, { metrics, listener })
    : () => {};
  undo.push(unfollowCertificate);
  for (const ref of config.preload)
    (await host.use(ref).catch((error: unknown) => refusePreload(ref, error, log))).release();
  const kept = keepLoaded(host, config.preload);
  undo.push(() => kept.stop());
  server.state.kept = kept;
  const address = await listener.listen(config.listen.port, dev ? '127.0.0.1' : config.listen.host);
  server.state.ready = true;
  let stopping: Promise<void> | null = null;
  return {
    url: `${certificate ? 'https' : 'http'}://${dev ? 'localhost' : hostInUrl(config.listen.host)}:${address.port}`,
    token,
    certificate: dev ? certificate!.cert : null,
    stop: () => {
      const unfollow = () => {
        unfollowCertificate();
        stopDisks();
        kept.stop();
      };
      stopping ??= stop({ host, keys, listener, server, audit, unfollow, unhear }, config.timeouts.stop_ms);
      return stopping;
    },
  };
}

/** Folders to which the service writes. */
const disksOf = ({ spill, jobs, audit, registry_options }: ServerConfig): Readonly<Record<string, string>> => ({
  spill: spill.folder ?? tmpdir(),
  ...(jobs.shared ? {} : { jobs: jobs.folder }),
  ...(audit === undefined ? {} : { audit: path.dirname(path.resolve(audit.file)) }),
  ...(registry_options.cache_folder === undefined ? {} : { cache: registry_options.cache_folder }),
});

async function stop({ host, keys, listener, server, audit, unfollow, unhear }: Parts, withinMs: number): Promise<void> {
  server.state.ready = false;
  listener.close();
  const deadline = epochMs() + withinMs;
  // Waits for running requests first, then for connections, because slow clients may still be reading the last
  // responses.
  for (const busy of [() => server.busy(), () => listener.open()]) {
    while (busy() > 0 && epochMs() < deadline) {
      listener.closeIdle();
      await sleep(20);
    }
  }
  listener.closeAll();
  keys.close();
  unfollow();
  // Server and models are closed at the same time, because a response may wait for a model that never finishes loading.
  await Promise.all([server.app.close(), host.close()]);
  await audit.close();
  unhear();
}

/**
 * Logs the name of the model. The thrown error does not contain the name, because the references in requests must not
 * be logged; this reference comes from the configuration.
 */
function refusePreload(reference: string, error: unknown, log: Log): never {
  const message = words`preload: ${named(reference)} cannot be loaded: ${saysOf(error)}`;
  log('error', 'model_load_failed', message, { ...faultFields(error), reference: named(reference) });
  throw error;
}
