// Writes the metrics of a run to a file or to a push gateway. If writing fails, the result of the run is unaffected.
import { open } from 'node:fs/promises';
import { SluiceError } from '../../core/errors.ts';
import { faultFields, faultOf, type Log, named, words } from '../../core/log.ts';
import { isLeftText, lastSuccessIn, leftText, type RunEnd } from '../../monitor/left-metrics.ts';
import type { Metrics } from '../../monitor/metrics.ts';

interface LeavingPlaces {
  /** Path of the file; undefined if no file is requested. */
  file: string | undefined;
  /** Address of the push gateway; undefined if none is configured. */
  gateway: string | undefined;
  /** Whether the run was started. If so, the file is not one of its inputs or outputs. */
  begun: boolean;
  log: Log;
}

/** Maximum size of an existing metrics file in bytes. */
const MAX_BYTES = 16 * 1024 * 1024;
/**
 * Timeout of a request in ms. There must be time for two requests between the end of a stopped run and the forced end
 * of its process.
 */
const PUSH_MS = 3_000;

/** Never throws. Failures are logged. */
export async function leaveMetrics(metrics: Metrics, end: RunEnd, places: LeavingPlaces): Promise<void> {
  const { file, gateway, log } = places;
  if (file !== undefined) {
    await leaveFile(metrics, end, file, places.begun).catch((error: unknown) => {
      log(
        'error',
        'metrics_not_left',
        words`cannot write the metrics to ${named(file)}: ${faultOf(error)}`,
        faultFields(error),
      );
    });
  }
  if (gateway !== undefined) {
    await push(metrics, end, gateway).catch((error: unknown) => {
      log('error', 'metrics_not_left', words`cannot push the metrics: ${faultOf(error)}`, faultFields(error));
    });
  }
}

async function leaveFile(metrics: Metrics, end: RunEnd, file: string, begun: boolean): Promise<void> {
  const before = await textOf(file);
  // The run was not started, so the path may name one of its inputs.
  if (!begun && before !== null && !isLeftText(before)) return;
  const { putFile } = await import('../../io/sink/file-sink.ts');
  await putFile(file, await leftText(metrics, end, lastSuccessIn(before ?? '', end.pipeline)));
}

/** The content of the file; null if the file does not exist. A file above the size limit was not written by a run. */
async function textOf(file: string): Promise<string | null> {
  const handle = await open(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (handle === null) return null;
  try {
    const info = await handle.stat();
    return info.isFile() && info.size <= MAX_BYTES ? await handle.readFile('utf8') : '';
  } finally {
    await handle.close();
  }
}

/** Replaces all metrics of the pipeline in the gateway, so that no metric of an earlier run remains. */
async function push(metrics: Metrics, end: RunEnd, gateway: string): Promise<void> {
  const { address, headers } = gatewayOf(gateway);
  const before = end.success ? '' : await answerOf(`${address}/metrics`, { headers });
  const body = await leftText(metrics, end, lastSuccessIn(before, end.pipeline));
  const group = `${address}/metrics/job/sluice/pipeline/${encodeURIComponent(end.pipeline)}`;
  await answerOf(group, { method: 'PUT', body, headers: { ...headers, 'content-type': 'text/plain; version=0.0.4' } });
}

/** @throws SluiceError usage */
export function gatewayOf(gateway: string): { address: string; headers: Record<string, string> } {
  const url = URL.canParse(gateway) ? new URL(gateway) : null;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new SluiceError('usage', 'the address of a push gateway must start with http:// or https://');
  const login = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return {
    address: `${url.origin}${url.pathname.replace(/\/$/, '')}`,
    headers: url.username === '' ? {} : { authorization: `Basic ${Buffer.from(login).toString('base64')}` },
  };
}

async function answerOf(url: string, request: RequestInit): Promise<string> {
  const response = await fetch(url, { ...request, signal: AbortSignal.timeout(PUSH_MS) });
  const text = await response.text();
  if (!response.ok) throw new SluiceError('output_failed', `it responded with status ${response.status}`);
  return text;
}
