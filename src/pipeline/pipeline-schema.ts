// The schema of pipeline files (pipelines/*.yaml). The keys depend on the types of source, sink and dead letters.
import type { Static, TSchema } from 'typebox';
import { choice, closed, section, whole } from '../config/options/describe-option.ts';
import { GateSchema } from '../config/options/gate-limits.ts';
import { SCORING } from '../config/options/scoring.ts';
import { Type } from '../config/schema.ts';
import type { AllSchemas } from '../connectors/connectors.ts';
import { KafkaSchema, type KafkaSource, SchemaRegistrySchema } from '../connectors/kafka/kafka-options.ts';
import type { UploadSource } from '../connectors/upload/upload-options.ts';

export const ScoreSchema = section(
  {
    interpretation: SCORING.interpretation({ default: 'none' }),
    interpret_below: Type.Optional(SCORING.interpret_below()),
    top_effects: Type.Optional(SCORING.top_effects()),
    interactions: Type.Optional(SCORING.interactions()),
    max_evaluations: Type.Optional(SCORING.max_evaluations()),
    passthrough: Type.Optional(SCORING.passthrough_list()),
    batch_rows: SCORING.batch_rows({ default: 1024 }),
    batch_wait_ms: SCORING.batch_wait_ms({ default: 20 }),
    workers: Type.Optional(SCORING.workers({ otherwise: 'one per core' })),
    evaluator: SCORING.evaluator({ default: 'auto' }),
    record_bytes: SCORING.record_bytes({ default: 1024 * 1024 }),
    max_columns: SCORING.max_columns({ default: 2000 }),
  },
  'how applications are scored',
);

/**
 * The keys that every pipeline has. `source`, `sink`, `deadLetter`: schemas of these keys. `features`: options of run
 * features.
 */
export function pipelineSchema<A extends TSchema, B extends TSchema, C extends TSchema>(
  source: A,
  sink: B,
  deadLetter: C,
  features: Readonly<Record<string, TSchema>> = {},
) {
  return Type.Object(
    {
      model: SCORING.model(),
      source,
      score: ScoreSchema,
      sink,
      dead_letter: Type.Optional(deadLetter),
      on_invalid: Type.Optional(
        choice(
          'invalid applications: dead_letter sends them to the dead-letter topic, report rejects them and continues, fail ends the run',
          ['dead_letter', 'report', 'fail'],
          { otherwise: 'dead_letter if the pipeline has dead letters, else report' },
        ),
      ),
      allow_empty: Type.Optional(SCORING.allow_empty()),
      deadline: Type.Optional(SCORING.deadline()),
      ...(features as object),
      gate: Type.Optional(GateSchema),
      manifest: Type.Optional(SCORING.manifest({ otherwise: 'true' })),
      sign_key: Type.Optional(SCORING.sign_key({ otherwise: 'manifests are not signed' })),
      require_lock: Type.Optional(SCORING.require_lock({ otherwise: '$SLUICE_REQUIRE_LOCK, else false' })),
      require_signature: Type.Optional(
        SCORING.require_signature({ otherwise: '$SLUICE_REQUIRE_SIGNATURE, else signatures are not required' }),
      ),
      require_signer: Type.Optional(
        SCORING.require_signer_list({ otherwise: '$SLUICE_REQUIRE_SIGNER, else every certificate that is trusted' }),
      ),
      require_approval: Type.Optional(
        SCORING.require_approval({ otherwise: '$SLUICE_REQUIRE_APPROVAL, else approvals are not required' }),
      ),
      report: Type.Optional(SCORING.report()),
      run_records: Type.Optional(SCORING.run_records()),
      delivery: Type.Optional(
        choice(
          'exactly_once is possible between topics, from a topic to a table, and for uploads with an idempotency key',
          ['exactly_once', 'at_least_once'],
          {
            otherwise: 'exactly_once where possible',
          },
        ),
      ),
      transaction_rows: whole('between topics: maximum rows per transaction', [1], { default: 4096 }),
      commit_interval_ms: whole(
        'between topics: minimum time between two transactions; a shorter time lowers the latency and needs more CPU',
        [0],
        { default: 20 },
      ),
      transaction_timeout_ms: whole('between topics: time after which the broker aborts a transaction', [1], {
        default: 10_000,
      }),
      kafka: KafkaSchema,
      schema_registry: Type.Optional(SchemaRegistrySchema),
    },
    closed,
  );
}

/** A schema that checks only the key `type`. The type then selects the complete schema of a source or sink. */
export const typeOnly = (types: Readonly<Record<string, TSchema>>) =>
  Type.Object({ type: Type.Enum(Object.keys(types)) }, { additionalProperties: true });

type Ends<T extends Readonly<Record<string, TSchema>>> = Static<T[keyof T]>;
export type Source = Ends<AllSchemas['sources']>;
/** A source that has an end, so that a run can read it completely. */
export type FiniteSource = Exclude<Source, KafkaSource | UploadSource>;
type Sink = Ends<AllSchemas['sinks']>;
export type DeadLetter = Ends<AllSchemas['deadLetters']>;

type Common = Static<
  ReturnType<
    typeof pipelineSchema<ReturnType<typeof typeOnly>, ReturnType<typeof typeOnly>, ReturnType<typeof typeOnly>>
  >
>;

/** A pipeline as written in its file, with those defaults that do not depend on other keys. */
export interface PipelineFile extends Omit<Common, 'source' | 'sink' | 'dead_letter'> {
  source: Source;
  sink: Sink;
  dead_letter?: DeadLetter;
}

export interface Pipeline extends PipelineFile {
  /** Path of the pipeline file. */
  file: string;
  on_invalid: 'dead_letter' | 'report' | 'fail';
  delivery: 'exactly_once' | 'at_least_once';
}
