// Starts the whole service and stops it gracefully.
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { SCOPES } from '../../config/scopes.ts';
import type { ServerConfig } from '../../config/server-config.ts';
import { SluiceError } from '../../core/errors.ts';
import { hostEvents } from '../../engine/host-events.ts';
import { ModelHost } from '../../engine/model-host.ts';
import type { Registry } from '../../model/registry/registry.ts';
import { Metrics } from '../../monitor/metrics.ts';
import { tryPackage } from '../../onboarding/verify.ts';
import { hashToken, KeyRing, newToken } from './access/api-keys.ts';
import { buildServer } from './server.ts';
import { createListener, devCertificate, followCertificate, proxyCheck, readCertificate } from './wire/listener.ts';

export interface ServeOptions {
  config: ServerConfig;
  registry: Registry;
  /** Loopback only, a certificate and a key made on the spot. */
  dev?: boolean;
  /** Set by the service: hears how questions to a remote registry end. */
  lookups?: { hear: (outcome: 'ok' | 'stale' | 'failed') => void };
  /** Hears in words what goes wrong beside the requests. */
  tell?: (text: string) => void;
}

export interface RunningService {
  url: string;
  /** With --dev: the token made on the spot. */
  token: string | null;
  /** With --dev: the certificate, for clients that want to trust it. */
  certificate: string | null;
  /** Not ready → no new work → running answers finish within the deadline → closed. Idempotent. */
  stop(): Promise<void>;
}

/** @throws SluiceError usage | model_* */
export async function serve(options: ServeOptions): Promise<RunningService> {
  const { config, registry, dev = false } = options;
  const tell = options.tell ?? (() => {});
  if (!dev && !config.tls && !config.behind_tls_proxy) {
    throw new SluiceError('usage', 'serve wants tls (certificate and key), behind_tls_proxy, or --dev');
  }
  if (config.tls && config.behind_tls_proxy)
    throw new SluiceError('usage', 'tls and behind_tls_proxy exclude each other');
  const metrics = new Metrics();
  if (options.lookups) options.lookups.hear = (outcome) => metrics.lookups.inc({ outcome });
  const host = new ModelHost({
    registry,
    workers: config.workers ?? Math.max(1, availableParallelism()),
    engine: config.evaluator,
    max: config.models_max,
    tryOut: tryPackage,
    ...hostEvents(metrics, tell),
  });
  const keys = new KeyRing();
  const token = dev ? newToken() : null;
  if (token) keys.replace([{ name: 'dev', sha256: hashToken(token), scopes: [...SCOPES] }]);
  else await keys.follow(config.keys_file, (error) => tell(`the keys stay as they are: ${(error as Error).message}`));

  const behindProxy = !dev && config.behind_tls_proxy ? config.behind_tls_proxy : null;
  const certificate = behindProxy ? null : dev ? await devCertificate() : await readCertificate(config.tls!);
  const listener = createListener({
    ...(certificate ? { certificate } : {}),
    headersTimeoutMs: config.timeouts.head_ms,
    keepAliveMs: config.timeouts.keep_alive_ms,
    headerBytes: config.limits.header_bytes,
  });
  const server = await buildServer({
    config,
    host,
    keys,
    metrics,
    serverFactory: listener.factory as never,
    ...(behindProxy ? { assertSecure: proxyCheck(behindProxy) } : {}),
  });
  const unfollow =
    !dev && config.tls
      ? followCertificate(config.tls, listener, (e) => tell(`the certificate stays as it is: ${(e as Error).message}`))
      : () => {};
  try {
    for (const ref of config.preload) (await host.use(ref)).release();
    const address = await listener.listen(config.listen.port, dev ? '127.0.0.1' : config.listen.host);
    server.state.ready = true;
    const name = dev ? 'localhost' : config.listen.host;
    let stopping: Promise<void> | null = null;
    return {
      url: `${certificate ? 'https' : 'http'}://${name}:${address.port}`,
      token,
      certificate: dev ? certificate!.cert : null,
      stop: () => {
        stopping ??= stop();
        return stopping;
      },
    };
  } catch (error) {
    await host.close();
    keys.close();
    unfollow();
    throw error;
  }

  async function stop(): Promise<void> {
    server.state.ready = false;
    listener.close();
    const deadline = Date.now() + config.timeouts.stop_ms;
    while (server.busy() > 0 && Date.now() < deadline) {
      listener.closeIdle();
      await sleep(20);
    }
    // What was answered last may still be on its way to a slow reader.
    while (listener.open() > 0 && Date.now() < deadline) {
      listener.closeIdle();
      await sleep(20);
    }
    listener.closeAll();
    keys.close();
    unfollow();
    await server.app.close();
    await host.close();
  }
}
