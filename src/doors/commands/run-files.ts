// What follows the last row of a run: files that were requested (its report and its record), and a warning about total lines.
import { epochMs } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { RunningPipeline } from '../../runs/context.ts';
import type { RunSpec } from '../../runs/spec.ts';
import type { EndOfRun } from './leave-run-record.ts';
import { warnOfTotalLines } from './total-line-warning.ts';

interface DescribedRun {
  name: string;
  log: Log;
  /** null: the run has not started. */
  running: () => RunningPipeline | null;
  /** Seconds since the start. */
  seconds: () => number;
}

interface RunFiles {
  /** Never throws; failures are logged. */
  leave(end: EndOfRun): Promise<void>;
}

export async function openRunFiles(spec: RunSpec, run: DescribedRun): Promise<RunFiles> {
  const report = await reportFor(spec, run);
  const record =
    spec.run_records === undefined
      ? null
      : await (await import('./leave-run-record.ts')).startRecord(spec, run.name, run.log);
  return {
    async leave(end) {
      await report?.leave(end);
      await record?.end(end);
      if (end.error === null) await warnOfTotalLines(spec, run.log);
    },
  };
}

/** null: no report is requested. */
async function reportFor(spec: RunSpec, { name, log, running, seconds }: DescribedRun): Promise<RunFiles | null> {
  const file = spec.report;
  if (file === undefined) return null;
  const { leaveReport, ThroughputWatch } = await import('./leave-report.ts');
  const began = new Date(epochMs());
  const watch = new ThroughputWatch(running, seconds);
  return {
    async leave({ findings, result, exitCode, error }) {
      const progress = watch.end();
      // For a rejected run the report path may name an unrelated file, so it is not written.
      if (running() === null) return;
      const end = { findings, result, exitCode, error: error?.message ?? null };
      await leaveReport(file, { name, spec, began, seconds: seconds(), progress, ...end }, log);
    },
  };
}
