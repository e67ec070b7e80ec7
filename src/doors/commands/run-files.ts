// Work after the last row of a run: writes the requested report and record, and warns about total lines.
import { epochMs } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { RunningPipeline } from '../../runs/context.ts';
import type { RunSpec } from '../../runs/spec.ts';
import type { EndOfRun } from './leave-run-record.ts';
import { warnOfTotalLines } from './total-line-warning.ts';

interface DescribedRun {
  name: string;
  log: Log;
  /** Null if the run has not started. */
  running: () => RunningPipeline | null;
  /** Seconds since the start of the run. */
  seconds: () => number;
}

interface RunFiles {
  /** Never throws. Failures are logged. */
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

/** Returns null if no report is requested. */
async function reportFor(spec: RunSpec, { name, log, running, seconds }: DescribedRun): Promise<RunFiles | null> {
  const file = spec.report;
  if (file === undefined) return null;
  const { leaveReport, ThroughputWatch } = await import('./leave-report.ts');
  const began = new Date(epochMs());
  const watch = new ThroughputWatch(running, seconds);
  return {
    async leave({ findings, result, exitCode, error }) {
      const progress = watch.end();
      // The run was rejected before it started, so the path for the report may name an unrelated file, which must not
      // be overwritten.
      if (running() === null) return;
      const end = { findings, result, exitCode, error: error?.message ?? null };
      await leaveReport(file, { name, spec, began, seconds: seconds(), progress, ...end }, log);
    },
  };
}
