// Writes the report of a run, even if the run failed. If writing the report fails, the result of the run is unaffected.
import { readFile, stat } from 'node:fs/promises';
import { startInterval, stopTimer, type Timer } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { faultFields, faultOf, type Log, named, words } from '../../core/log.ts';
import { comparedIn, type ReportedRun, reportData } from '../../report/report-data.ts';
import { reportPage } from '../../report/report-page.ts';
import type { RunningPipeline } from '../../runs/context.ts';

/**
 * Maximum number of points in the throughput chart. When this number is reached, every second point is dropped and the
 * interval doubles.
 */
const MOST_POINTS = 240;
const FIRST_EVERY_MS = 250;
/** Maximum size of an existing report in bytes. */
const MAX_BYTES = 64 * 1024 * 1024;

/** Samples the number of rows read over time. */
export class ThroughputWatch {
  #points: [seconds: number, rows: number][] = [[0, 0]];
  #every = FIRST_EVERY_MS;
  #timer: Timer | null = null;
  readonly #take: () => void;

  constructor(running: () => RunningPipeline | null, seconds: () => number) {
    this.#take = () => {
      const rows = running()?.progress().counts.rows ?? 0;
      this.#points.push([seconds(), rows]);
      if (this.#points.length < MOST_POINTS) return;
      this.#points = this.#points.filter((_, i) => i % 2 === 0);
      this.#every *= 2;
      this.#start();
    };
    this.#start();
  }

  #start(): void {
    if (this.#timer) stopTimer(this.#timer);
    this.#timer = startInterval(this.#take, this.#every);
    this.#timer.unref();
  }

  end(): [seconds: number, rows: number][] {
    if (this.#timer) stopTimer(this.#timer);
    this.#timer = null;
    this.#take();
    if (this.#timer) stopTimer(this.#timer);
    return this.#points;
  }
}

/** Never throws. Failures are logged. */
export async function leaveReport(
  file: string,
  run: Omit<ReportedRun, 'manifests' | 'previous'>,
  log: Log,
): Promise<void> {
  try {
    const previous = await previousIn(file);
    const data = reportData({ ...run, manifests: await manifestsOf(run.result?.outputs ?? []), previous });
    if (data === null) return;
    const { putFile } = await import('../../io/sink/file-sink.ts');
    const { makeFolderOf } = await import('../../connectors/stored-bytes.ts');
    await makeFolderOf(file);
    await putFile(file, reportPage(data));
  } catch (error) {
    const says = words`cannot write the report ${named(file)}: ${faultOf(error)}`;
    log('error', 'report_not_left', says, faultFields(error));
  }
}

/** @throws SluiceError output_unwritable: the file is not a report and is not replaced */
async function previousIn(file: string): Promise<ReportedRun['previous']> {
  const there = await stat(file).catch(() => null);
  if (!there?.isFile() || there.size === 0) return null;
  const compared = there.size > MAX_BYTES ? undefined : comparedIn(await readFile(file, 'utf8'));
  if (compared === undefined) throw new SluiceError('output_unwritable', `${file} exists and is not a report of a run`);
  return compared;
}

/** The manifests that exist for the outputs. */
async function manifestsOf(outputs: readonly string[]): Promise<string[]> {
  const names = outputs.map((name) => `${name}.manifest.json`);
  const there = await Promise.all(names.map((name) => stat(name).catch(() => null)));
  return names.filter((_, i) => there[i] !== null);
}
