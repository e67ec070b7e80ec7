// Serves the metrics and health checks of a process that has no web server, over plain HTTP for the internal network.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Metrics } from './metrics.ts';
import type { PipelineReports } from './pipeline-report.ts';

export interface MetricsServer {
  port: number;
  close(): Promise<void>;
}

interface MetricsServerOptions {
  host: string;
  port: number;
  /** Whether the process makes progress. */
  ready: () => boolean;
  pipelines: () => Promise<PipelineReports>;
}

/** Serves /metrics, /metrics/columns, /pipelines, /livez and /readyz. */
export async function serveMetrics(
  metrics: Metrics,
  { host, port, ready, pipelines }: MetricsServerOptions,
): Promise<MetricsServer> {
  const unfill = metrics.onScrape(() => metrics.ready.set(ready() ? 1 : 0));
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://localhost').pathname;
    const answer = (status: number, text: string, type = 'text/plain; charset=utf-8') => {
      response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(text);
    };
    if (request.method !== 'GET' && request.method !== 'HEAD') answer(405, 'only GET\n');
    else if (path === '/livez') answer(200, 'alive\n');
    else if (path === '/readyz') answer(ready() ? 200 : 503, ready() ? 'ready\n' : 'not ready\n');
    else if (path === '/metrics' || path === '/metrics/columns') {
      (path === '/metrics' ? metrics.text() : metrics.columnsText()).then(
        (text) => answer(200, text, metrics.registry.contentType),
        () => answer(500, 'metrics failed\n'),
      );
    } else if (path === '/pipelines') {
      pipelines().then(
        (reports) => answer(200, `${JSON.stringify(reports)}\n`, 'application/json; charset=utf-8'),
        () => answer(500, 'the state of the pipelines is not available\n'),
      );
    } else answer(404, 'there are /metrics, /metrics/columns, /pipelines, /livez and /readyz\n');
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        unfill();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
