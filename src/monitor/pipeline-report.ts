// The state of the pipelines of a process, as its metrics port serves it at /pipelines and `sluice serve` reads it.
import { VERSION } from '../core/version.ts';
import type { Metrics } from './metrics.ts';

/** `not_ready`: the run starts, reconnects or makes no progress. */
type PipelineState = 'running' | 'paused' | 'model_unavailable' | 'not_ready';

/** One pipeline of one process. Counts cover the time since the process started. */
export interface PipelineReport {
  name: string;
  /** Reference of its model. */
  model: string;
  state: PipelineState;
  source: string;
  sink: string;
  started: string;
  /** Records that are not committed yet; null: the source has an end. */
  lag: number | null;
  /** Age of the oldest uncommitted record, seconds; null: the source has an end. */
  oldestSeconds: number | null;
  rows: number;
  scored: number;
  rejected: number;
  rejectedByCode: Record<string, number>;
  /** Records written to the dead-letter topic by error code. */
  deadLetters: Record<string, number>;
}

export interface PipelineReports {
  sluice: string;
  pipelines: PipelineReport[];
}

type Known = Omit<PipelineReport, 'state' | 'oldestSeconds' | 'deadLetters'>;

/** The report of a process with one pipeline. `ready`: whether it makes progress. */
export async function reportPipeline(metrics: Metrics, known: Known, ready: boolean): Promise<PipelineReports> {
  await metrics.fill();
  const [paused, waits, ages, letters] = await Promise.all([
    metrics.paused.get(),
    metrics.modelUnavailable.get(),
    metrics.lagSeconds.get(),
    metrics.deadLetters.get(),
  ]);
  const isSet = ({ values }: typeof paused) => values.some(({ value }) => value > 0);
  const state = isSet(waits) ? 'model_unavailable' : isSet(paused) ? 'paused' : ready ? 'running' : 'not_ready';
  const deadLetters: Record<string, number> = {};
  for (const { labels, value } of letters.values) {
    const code = String(labels.code);
    if (value > 0) deadLetters[code] = (deadLetters[code] ?? 0) + value;
  }
  const oldestSeconds = known.lag === null ? null : Math.max(0, ...ages.values.map(({ value }) => value));
  return { sluice: VERSION, pipelines: [{ ...known, state, oldestSeconds, deadLetters }] };
}
