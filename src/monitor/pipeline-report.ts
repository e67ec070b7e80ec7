// The state of a process's pipelines. The metrics port of the process serves this state at /pipelines, where `sluice
// serve` reads it.
import { VERSION } from '../core/version.ts';
import type { Metrics } from './metrics.ts';

/** `not_ready`: the run is starting, reconnecting, or making no progress. */
type PipelineState = 'running' | 'paused' | 'model_unavailable' | 'not_ready';

/** One pipeline in one process. Counts begin with the start of the process. */
export interface PipelineReport {
  name: string;
  /** Reference of the pipeline's model. */
  model: string;
  state: PipelineState;
  source: string;
  sink: string;
  started: string;
  /** Number of records that are not committed yet; null for a source that has an end. */
  lag: number | null;
  /** Age of the oldest uncommitted record in seconds; null for a source that has an end. */
  oldestSeconds: number | null;
  rows: number;
  scored: number;
  rejected: number;
  rejectedByCode: Record<string, number>;
  /** Number of records written to the dead-letter topic, by error code. */
  deadLetters: Record<string, number>;
}

export interface PipelineReports {
  sluice: string;
  pipelines: PipelineReport[];
}

type Known = Omit<PipelineReport, 'state' | 'oldestSeconds' | 'deadLetters'>;

/** The report of a process that has one pipeline. `ready`: whether the pipeline makes progress. */
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
