// Scores one input of a run: opens the plugins' observers, the source and the sink, and adds the files to the commit
// group.
import { makeFolderOf } from '../connectors/stored-bytes.ts';
import type { UnitAccount } from './account.ts';
import { tallyOfSaved } from './accumulator.ts';
import type { OpenSource } from './byte-ends.ts';
import type { CommitGroup } from './commit-group.ts';
import type { InputScorer } from './input-scorer.ts';
import type { RunEnds } from './open-ends.ts';
import { type ObservedAttempt, type OpenStep, type PlannedRun, type StepObserver, StepObservers } from './plugin.ts';
import type { RunStep } from './same-files.ts';
import { fileScoringOf } from './spec.ts';

interface StepRunner {
  run: PlannedRun;
  /** The plugins of this run, in hook order. */
  openers: readonly OpenStep[];
  ends: RunEnds;
  scorer: InputScorer;
  signal: AbortSignal;
  /** Called with the source of every attempt, for progress reports. */
  onSource: (source: OpenSource) => void;
}

async function openObservers(openers: readonly OpenStep[], step: RunStep, group: CommitGroup) {
  const observers: StepObserver[] = [];
  let resume: StepObserver['resume'] = null;
  for (const open of openers) {
    const observer = await open({ ...step, set: group.set, resume: resume ?? null });
    if (observer === 'skip') return null;
    if (!observer) continue;
    observers.push(observer);
    resume ??= observer.resume;
  }
  return new StepObservers(observers);
}

/**
 * Returns true if the step was scored, false if a plugin skipped the step.
 * @throws SluiceError any error that ends the input; the caller must then discard the group
 */
export async function runStep(runner: StepRunner, step: RunStep, group: CommitGroup): Promise<boolean> {
  const { run, ends, scorer } = runner;
  const { spec, context, model, rejects } = run;
  const { input, output } = step;
  // The folders must exist before a plugin looks in them for files of an interrupted run.
  for (const file of [output?.name, rejects.pathFor(input)]) if (file) await makeFolderOf(file);
  const observers = await openObservers(runner.openers, step, group);
  if (observers === null) return false;
  try {
    const { resume } = observers;
    const earlier = resume ? { from: resume.last.list, blocks: resume.proven } : undefined;
    const list = await rejects.part(input, group.set, earlier);
    let attempt: ObservedAttempt | null = null;
    let unit: UnitAccount | null = null;
    const counts = await scorer.score({
      open: async () => {
        observers.begin();
        const { taps } = observers;
        const opened = await ends.open(step, { set: group.set, from: resume?.last ?? null, taps });
        attempt = observers.attempt({ ...opened, rejects: list });
        runner.onSource(attempt.source);
        return attempt;
      },
      rejects: list,
      scoring: fileScoringOf(spec),
      unit: () => {
        unit = context.account.unit();
        for (const saved of resume?.tallies ?? []) {
          unit.add(tallyOfSaved(saved, model.manifest), model.ref);
          for (const { state } of observers.list) state?.restore(saved);
        }
        return unit;
      },
      publish: 'later',
      beforeCommit: (counts) => observers.beforeCommit(counts, attempt!),
      idleMs: spec.score.batch_wait_ms,
      signal: runner.signal,
    });
    const { source, sink } = attempt! as ObservedAttempt;
    group.add({
      observers,
      counts,
      unit: unit!,
      output: output?.name ?? null,
      rejects: counts.rejected > 0 ? rejects.pathFor(input) : null,
      bytesRead: source.bytesRead(),
      bytesWritten: sink.bytesWritten,
    });
    run.result.resumedRows += resume?.last.rows ?? 0;
    await observers.scored(counts, attempt!);
    return true;
  } catch (error) {
    await observers.failed(error);
    throw error;
  }
}
