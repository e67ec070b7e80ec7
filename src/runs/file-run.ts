// A run whose input is files or standard input: one input after the other into its output, counted by one account.
import type { KeyObject } from 'node:crypto';
import type { KafkaSink, PostgresSink } from '../config/pipeline-schema.ts';
import { asSluiceError, SluiceError } from '../core/errors.ts';
import { named, words } from '../core/log.ts';
import type { RunCounts } from '../engine/counts.ts';
import { warnUnlocked } from '../engine/host-events.ts';
import { assertExplainable } from '../engine/score-chunks.ts';
import { CommitSet } from '../io/sink/commit-set.ts';
import { versionOf } from '../model/package/load-package.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { ProvenBlock } from '../proof/statement.ts';
import type { UnitAccount } from './account.ts';
import { TallyAccumulator } from './accumulator.ts';
import { newResult, type RunContext, type RunningPipeline, type RunProgress, type RunResult } from './context.ts';
import { digestedSource, openQuerySource, openTable } from './database-ends.ts';
import { isDoneBefore } from './done-before.ts';
import {
  type Endpoint,
  inputsOf,
  isPattern,
  type OpenSink,
  type OpenSource,
  openSink,
  openSource,
  outputEndpoint,
  STDIO,
} from './endpoints.ts';
import { type FileCheckpoints, followedEnds, openCheckpoints } from './file-checkpoints.ts';
import { filesRead, filesWritten, type RunStep, sizeOfInputs } from './files-of-run.ts';
import { refuseVisible } from './gate.ts';
import { failureOf, type InputFailure, inputFailure, nextMayWork } from './input-failures.ts';
import { InputScorer } from './input-scorer.ts';
import type { Checkpoint } from './interrupted-run.ts';
import { connectionOf } from './kafka-connection.ts';
import { refuseNothingScoredOf } from './nothing-scored.ts';
import type { RejectsList } from './rejects-list.ts';
import { RunFindings } from './run-findings.ts';
import { addManifest, isWitnessed, manifestNameOf, RunProof, signKeyOf } from './run-proof.ts';
import { refuseSameFiles } from './same-files.ts';
import { describePiece, type ScoredPiece, shardInputs } from './shard-run.ts';
import { type FileRunSpec, type FilesOnlySpec, interpretationOf, rejectsOf, scoringOf } from './spec.ts';
import type { TopicSink } from './topic-sink.ts';

/** @throws SluiceError usage | input_not_found | model_* before anything is read or written; `done` rejects with what ends the run */
export async function startFileRun(spec: FileRunSpec, context: RunContext): Promise<RunningPipeline> {
  const { shard } = spec;
  const inputs = shard ? shardInputs(shard) : await inputsOf(spec.source);
  const topic = spec.sink.type === 'kafka' ? spec.sink : null;
  const steps = inputs.map((input): RunStep => ({ input, output: outputFor(spec, input) }));
  const several = shard
    ? inputs.length > 1
    : spec.source.type === 'file' && isPattern(spec.source.path) && inputs[0]!.name !== spec.source.path;
  const rejects = rejectsOf(spec, several);
  await refuseSameFiles(filesRead(spec, inputs), [...filesWritten(spec, steps, rejects, several), ...context.beside]);
  const model = await context.registry.resolve(spec.model);
  warnUnlocked(context.log, model);
  if (spec.score.interpretation !== 'none') assertExplainable(model, interpretationOf(spec));
  const findings = context.findings ?? new RunFindings();
  findings.open(spec, model);
  if (spec.gate && spec.sink.type !== 'postgres') await refuseVisible(steps.map(({ output }) => output?.name ?? null));
  const key = await signKeyOf(spec);
  const totalBytes = steps.length > 1 ? await sizeOfInputs(inputs) : null;
  // Where all inputs have one list, it is written by one run.
  const mayBeDone = several && !shard && !rejects.ofAll && (spec.resume === 'always' || spec.resume === 'asked');
  const run = new FileRun({ spec, context, model, steps, rejects, topic, key, totalBytes, findings, mayBeDone });
  return { progress: () => run.progress(), done: run.done, stop: () => run.stop() };
}

const outputFor = (spec: FileRunSpec, input: Endpoint): Endpoint | null =>
  spec.sink.type === 'kafka' || spec.sink.type === 'postgres'
    ? null
    : outputEndpoint((spec as FilesOnlySpec).sink, input);

interface FileRunParts {
  spec: FileRunSpec;
  context: RunContext;
  model: ModelPackage;
  steps: readonly RunStep[];
  rejects: RejectsList;
  topic: KafkaSink | null;
  /** Signs manifests. */
  key: KeyObject | null;
  /** Of all inputs as stored; null where unknown. */
  totalBytes: number | null;
  findings: RunFindings;
  /** Inputs that were scored before are left as they are. */
  mayBeDone: boolean;
}

/** What becomes final together: of one input, or of all where they have one list of rejected rows. */
interface Together {
  set: CommitSet;
  units: UnitAccount[];
  done: Done[];
}

/** Where an output is written, and who sees it. */
interface Place {
  set: CommitSet;
  from: Checkpoint | null;
  proof: RunProof | null;
}

/** An input that was scored. */
interface Done {
  /** What was seen of it; null where no manifest is left. */
  proof: RunProof | null;
  counts: Readonly<RunCounts>;
  output: string | null;
  list: string | null;
  bytesRead: number;
  bytesWritten: number;
}

class FileRun {
  readonly done: Promise<RunResult>;
  readonly #parts: FileRunParts;
  readonly #scorer: InputScorer;
  readonly #stop = new AbortController();
  readonly #result: RunResult = newResult();
  #source: OpenSource | null = null;
  /** Bytes of the inputs that are done. */
  #readBefore = 0;
  #topic: TopicSink | null = null;

  constructor(parts: FileRunParts) {
    const { spec, context, model } = parts;
    this.#parts = parts;
    this.#scorer = new InputScorer({
      model,
      engine: spec.score.evaluator,
      workers: spec.score.workers,
      batchRows: spec.tuning?.batchRows,
      blockBytes: spec.tuning?.blockBytes,
      onWorkerDeath: (reason) => {
        context.metrics?.workerDeaths.inc({ model: model.ref });
        const says = words`a worker died and is replaced: ${reason}`;
        context.log('error', 'worker_died', says, { model: named(model.ref), reason });
      },
      onWork: (ms) => context.metrics?.workerBusy.inc(ms / 1000),
    });
    this.#measure();
    this.done = this.#run();
    this.done.catch(() => {});
  }

  #measure(): void {
    const { metrics } = this.#parts.context;
    metrics?.onScrape(() => {
      metrics.workers.set(this.#scorer.ready);
      metrics.modelsLoaded.set(this.#scorer.ready > 0 ? 1 : 0);
      const { explained } = this.progress();
      if (explained) metrics.explainedShare.set({ pipeline: this.#parts.context.name }, explained.share);
    });
  }

  progress(): RunProgress {
    const several = this.#parts.steps.length > 1;
    const totalBytes = several ? this.#parts.totalBytes : (this.#source?.totalBytes ?? null);
    const bytesRead = this.#readBefore + (this.#source?.bytesRead() ?? 0);
    const read = totalBytes === null ? null : totalBytes === 0 ? 1 : bytesRead / totalBytes;
    return {
      counts: this.#parts.context.account.progress,
      bytesRead,
      totalBytes,
      lag: null,
      explained: this.#parts.context.account.flow().explained.progress(read),
    };
  }

  async stop(): Promise<void> {
    this.#stop.abort(new SluiceError('cancelled', 'the run was stopped'));
    await this.done.catch(() => {});
  }

  async #run(): Promise<RunResult> {
    const { steps, rejects, context, model } = this.#parts;
    const failures: InputFailure[] = [];
    const all = rejects.ofAll ? this.#together() : null;
    let tried = 0;
    context.metrics?.served.set({ reference: this.#parts.spec.model, version: versionOf(model.manifest) }, 1);
    try {
      for (const step of steps) {
        tried++;
        try {
          if (this.#parts.mayBeDone && (await isDoneBefore(this.#parts, step, rejects.pathFor(step.input)))) {
            await this.#leave(step);
            continue;
          }
          await this.#score(step, all);
        } catch (error) {
          const e = asSluiceError(error, 'internal_error');
          if (steps.length === 1) throw e;
          failures.push(inputFailure(step.input.name, e));
          if (!nextMayWork(e)) break;
        }
      }
      // What was scored becomes final, however the other inputs ended.
      if (all && all.done.length > 0) await this.#publish(all, () => rejects.end(all.set));
      if (failures.length > 0) throw failureOf(failures, { inputs: steps.length, tried });
      return this.#result;
    } finally {
      await all?.set.abort();
      for (const unit of all?.units ?? []) unit.drop();
      await this.#topic?.close();
      await this.#scorer.close();
    }
  }

  /** An input that was scored before stays as it is. */
  async #leave({ input }: RunStep): Promise<void> {
    this.#result.inputsDoneBefore++;
    this.#readBefore += await sizeOfInputs([input]);
    const says = words`${named(input.name)} was scored before, by the same package and options: its output stays`;
    this.#parts.context.log('info', 'input_done_before', says);
  }

  #together(): Together {
    return { set: new CommitSet(this.#parts.context.log), units: [], done: [] };
  }

  async #score({ input, output }: RunStep, all: Together | null): Promise<void> {
    const { spec, context, model, rejects, topic, findings } = this.#parts;
    const refuseNothing = spec.allow_empty ? () => {} : refuseNothingScoredOf(model.manifest);
    const together = all ?? this.#together();
    const { set } = together;
    let sink: OpenSink | null = null;
    let unit: UnitAccount | null = null;
    let checkpoints: FileCheckpoints | null = null;
    let part = new TallyAccumulator();
    let proof: RunProof | null = null;
    // The list is seen from its beginning.
    if (isWitnessed(spec, output)) rejects.witnessOf(input);
    try {
      const beside = { list: rejects.pathFor(input), shared: rejects.ofAll };
      // A shard that was interrupted is scored again: it is short, and what is said of its part is of one process.
      if (!spec.shard)
        checkpoints = await openCheckpoints({ spec, model, input, output, ...beside, set, log: context.log });
      const last = checkpoints?.last ?? null;
      const listed = await rejects.part(
        input,
        set,
        last ? { from: last.list, blocks: checkpoints!.proven } : undefined,
      );
      const counts = await this.#scorer.score({
        open: async () => {
          proof = this.#witness({ input, output }, last && checkpoints!.proven);
          const ends = await this.#openEnds(input, output, { set, from: last, proof });
          this.#source = ends.source;
          sink = ends.sink;
          const followed = followedEnds(checkpoints, { ...ends, rejects: listed, proof });
          if (!spec.shard) return followed;
          part = new TallyAccumulator();
          return { ...followed, onPart: (tally) => part.add(tally) };
        },
        rejects: listed,
        scoring: scoringOf(spec, topic ? '*' : []),
        unit: () => {
          unit = context.account.unit(findings.hear());
          for (const tally of checkpoints?.restored() ?? []) unit.add(tally, model.ref);
          return unit;
        },
        publish: 'later',
        beforeCommit: async (counts) => {
          refuseNothing(counts);
          findings.judge(input.name, counts);
          await checkpoints?.settle();
        },
        idleMs: spec.score.batch_wait_ms,
        signal: this.#stop.signal,
      });
      this.#readBefore += this.#source!.bytesRead();
      const { evaluator, workers } = this.#scorer;
      this.#result.by = { model, packageSha256: model.sha256, evaluator, workers };
      together.units.push(unit!);
      together.done.push({
        proof,
        counts,
        output: output?.name ?? null,
        list: counts.rejected > 0 ? rejects.pathFor(input) : null,
        bytesRead: this.#source!.bytesRead(),
        bytesWritten: sink!.bytesWritten,
      });
      this.#result.resumedRows += last?.rows ?? 0;
      if (spec.shard)
        await this.#describe({ input, output: output! }, together.set, { counts, findings: part, proof: proof! });
      if (!all) await this.#publish(together);
      await checkpoints?.done();
    } catch (error) {
      await checkpoints?.giveUp(error);
      throw error;
    } finally {
      if (!all) await together.set.abort();
      for (const left of all ? [] : together.units) left.drop();
      this.#source = null;
    }
  }

  /** Sees what is read and written; null: nobody asks what that was. */
  #witness({ input, output }: RunStep, earlier: readonly ProvenBlock[] | null): RunProof | null {
    const { spec, model, key, rejects } = this.#parts;
    if (!isWitnessed(spec, output)) return null;
    const witness = rejects.witnessOf(input);
    const list = witness && { name: rejects.pathFor(input)!, witness };
    return new RunProof({ spec, model, input, output, key, list, earlier });
  }

  /** What merging has to know of a piece of a shard. */
  async #describe(
    ends: Pick<ScoredPiece, 'input' | 'output'>,
    set: CommitSet,
    made: Pick<ScoredPiece, 'counts' | 'findings' | 'proof'>,
  ): Promise<void> {
    const { spec, model } = this.#parts;
    const { evaluator } = this.#scorer;
    await describePiece(set, { ...made, ...ends, spec, shard: spec.shard!, model, evaluator, source: this.#source! });
  }

  /** All that was scored becomes final at once, and counts from then on. */
  async #publish({ set, units, done }: Together, before: () => Promise<void> = async () => {}): Promise<void> {
    await before();
    await this.#prove(set, done);
    await set.publish();
    for (const unit of units) unit.settle();
    const result = this.#result;
    for (const { output, list, bytesRead, bytesWritten } of done) {
      result.bytesRead += bytesRead;
      result.bytesWritten += bytesWritten;
      if (output !== null) result.outputs.push(output);
      if (list !== null && !result.rejectLists.includes(list)) result.rejectLists.push(list);
    }
  }

  /** A manifest for each output that is to have one; else one of an earlier run goes. */
  async #prove(set: CommitSet, done: readonly Done[]): Promise<void> {
    for (const { output, proof, counts } of done) {
      if (output === null || output === STDIO) continue;
      if (proof && !this.#parts.spec.shard)
        await addManifest(set, output, await proof.manifest(counts, this.#scorer.evaluator));
      else await set.remove(manifestNameOf(output));
    }
  }

  async #openEnds(
    input: Endpoint,
    output: Endpoint | null,
    place: Place,
  ): Promise<{ source: OpenSource; sink: OpenSink }> {
    const { spec, model } = this.#parts;
    const passthrough = scoringOf(spec, spec.sink.type === 'kafka' ? '*' : []).passthrough;
    const opened = input.query
      ? await openQuerySource(input.query, { manifest: model.manifest, passthrough })
      : await openSource(
          { ...input, recordBytes: spec.score.record_bytes },
          spec.tuning?.readBytes,
          place.proof?.sourceStored,
        );
    try {
      if (spec.sink.type !== 'postgres') return { source: opened, sink: await this.#openSink(output, place) };
      const { source, digest } = digestedSource(opened);
      const { manifest } = model;
      const table = {
        manifest,
        passthrough,
        interpretation: interpretationOf(spec),
        digest,
        log: this.#parts.context.log,
      };
      return { source, sink: await openTable(spec.sink as PostgresSink, table) };
    } catch (error) {
      await opened.close();
      throw error;
    }
  }

  async #openSink(output: Endpoint | null, place: Place): Promise<OpenSink> {
    const { spec, model, topic } = this.#parts;
    if (!topic) {
      const passthrough = spec.score.passthrough ?? [];
      const { set, from, proof } = place;
      const sink = await openSink(output!, {
        manifest: model.manifest,
        passthrough,
        interpretation: interpretationOf(spec),
        set,
        from,
        stored: proof?.sinkStored,
        goOn: proof?.goOn,
      });
      return proof?.sink(sink) ?? sink;
    }
    if (this.#topic) return this.#topic;
    // Imported lazily: a run into files must not load the Kafka client.
    const [{ openTopicSink }, { recordFormat }] = await Promise.all([
      import('./topic-sink.ts'),
      import('./record-format.ts'),
    ]);
    const { encode } = await recordFormat(spec);
    this.#topic = await openTopicSink({ connection: connectionOf(spec.kafka), sink: topic, encode });
    return this.#topic;
  }
}
