// The spec of a run: one source, one scoring, one sink. A pipeline file says it in YAML, `sluice score` in flags, an upload by its pipeline.
import type {
  FileSink,
  FileSource,
  Pipeline,
  PostgresSource,
  StdioSink,
  StdioSource,
} from '../config/pipeline-schema.ts';
import type { InterpretationSpec } from '../inference/explain/interpretation.ts';
import { RejectsList } from './rejects-list.ts';
import type { Scoring } from './run-once.ts';
import type { ShardSpec } from './shard-plan.ts';

/** What to do about a run of the same that was interrupted. `asked`: go on, by `--resume`; `always`: go on, by a pipeline. */
export type Resume = 'asked' | 'always' | 'restart' | 'no';

export interface RunSpec extends Pipeline {
  tuning?: Tuning;
  /** What to do about a run of the same that was interrupted; default: `no`. */
  resume?: Resume;
  /** The list of rejected rows was not asked for by name: there is none where no row was rejected. */
  list_only_if_any?: true;
  /** Only this shard of a plan. */
  shard?: ShardSpec;
}

/** Tuning; never changes the output. */
interface Tuning {
  /** Rows a micro-batch of a worker. */
  batchRows?: number;
  /** Bytes a block. */
  blockBytes?: number;
  /** Bytes a read. */
  readBytes?: number;
}

/** A run whose input is files, standard input or a query. */
export interface FileRunSpec extends RunSpec {
  source: FileSource | StdioSource | PostgresSource;
}

/** A run between files: neither end is a topic. */
export interface FilesOnlySpec extends FileRunSpec {
  sink: FileSink | StdioSink;
}

export function interpretationOf({ score }: Pick<Pipeline, 'score'>): InterpretationSpec | null {
  if (score.interpretation === 'none') return null;
  return {
    effects: score.interpretation === 'effects',
    reasons: true,
    top: score.top_effects ?? null,
    below: score.interpret_below ?? null,
    ...(score.interactions === undefined ? {} : { interactions: score.interactions }),
    ...(score.max_evaluations === undefined ? {} : { maxEvaluations: score.max_evaluations }),
  };
}

/** `echo`: what is passed through where the spec says nothing. */
export function scoringOf(spec: Pick<Pipeline, 'score' | 'on_invalid'>, echo: readonly string[] | '*'): Scoring {
  return {
    passthrough: spec.score.passthrough ?? echo,
    interpretation: interpretationOf(spec),
    limits: { maxRecordBytes: spec.score.record_bytes, maxColumns: spec.score.max_columns },
    failOnInvalid: spec.on_invalid === 'fail',
  };
}

/** The scoring of a run of files: records of a topic carry all columns. */
export const fileScoringOf = (spec: FileRunSpec): Scoring => scoringOf(spec, spec.sink.type === 'kafka' ? '*' : []);

/** The list that a run asks for. */
export function rejectsOf(
  { dead_letter, score, list_only_if_any }: Pick<RunSpec, 'dead_letter' | 'score' | 'list_only_if_any'>,
  several: boolean,
): RejectsList {
  return new RejectsList({
    path: dead_letter?.type === 'file' ? dead_letter.path : null,
    several,
    onlyIfAny: list_only_if_any === true,
    columns: score.passthrough === '*' ? [] : (score.passthrough ?? []),
  });
}
