// Every option of every entry point is crossed, or has a test of its own that is named here: a new option fails until it is classified.

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import type { TSchema } from 'typebox';
import { expect, test } from 'vitest';
import { endSchemas } from '../../src/connectors/connectors.ts';
import { SCORE_COMMANDS, SHARD_COMMANDS } from '../../src/doors/commands/flags/score-flags.ts';
import { PREDICT_QUERY } from '../../src/doors/http/wire/scoring-request.ts';
import type { OpenModelOptions, ScoreStreamOptions } from '../../src/index.ts';
import { pipelineSchema } from '../../src/pipeline/pipeline-schema.ts';
import { FEATURE_KEYS } from '../../src/runs/complete-pipeline.ts';
import fc from '../support/seeded-fast-check.ts';
import { type Case, combinations, ENTRIES } from './combinations.ts';
import { type RunOptions, runOptions } from './run-options.ts';

const { sources: SOURCES, sinks: SINKS, deadLetters: DEAD_LETTERS } = endSchemas();

/** Test files of this folder that vary an option. */
const CROSSED = {
  crossings: 'test/oracle/crossings.test.ts',
  servers: 'test/oracle/crossings-servers.test.ts',
  options: 'test/oracle/run-options.test.ts',
  interpretation: 'test/oracle/interpretation.test.ts',
  processes: 'test/oracle/processes.test.ts',
} as const;

/** Where each option is varied: a crossing, or the test that has it alone. */
type Classified = Record<string, keyof typeof CROSSED | `test/${string}`>;

const SCORING: Classified = {
  model: 'crossings',
  interpretation: 'crossings',
  interpret_below: 'crossings',
  top: 'crossings',
  top_effects: 'crossings',
  interactions: 'interpretation',
  max_evaluations: 'test/runs/asked-models.test.ts',
  passthrough: 'crossings',
  on_invalid: 'crossings',
  allow_empty: 'crossings',
  workers: 'crossings',
  evaluator: 'options',
  batch_rows: 'crossings',
  block_bytes: 'crossings',
  read_bytes: 'crossings',
  max_row_bytes: 'options',
  max_columns: 'test/formats/decode',
  delimiter: 'crossings',
  input_format: 'crossings',
  input_compression: 'crossings',
  format: 'crossings',
  compression: 'crossings',
  output: 'crossings',
  rejects: 'crossings',
  registry: 'crossings',
  quiet: 'crossings',
  json: 'options',
  no_manifest: 'crossings',
};
const DECLARED: Classified = {
  skip_lines: 'test/runs/skip-lines.test.ts',
  columns: 'crossings',
  rename: 'crossings',
  ignore: 'crossings',
  constants: 'crossings',
  encoding: 'crossings',
  decimal: 'crossings',
  thousands: 'crossings',
  trim: 'crossings',
  null_values: 'crossings',
};
const GATE: Classified = {
  max_rejects: 'crossings',
  min_rows: 'options',
  max_missing: 'test/runs/gate.test.ts',
  max_unseen: 'test/runs/gate.test.ts',
  max_out_of_range: 'test/runs/gate.test.ts',
  max_psi: 'test/runs/gate.test.ts',
  max_score_psi: 'test/runs/gate.test.ts',
};
const SEALS: Classified = {
  sign_key: 'test/runs/shards.test.ts',
  require_lock: 'test/model/signing/model-signature.test.ts',
  require_signature: 'test/model/signing/model-signature.test.ts',
  require_signer: 'test/model/signing/model-signature.test.ts',
  require_approval: 'test/model/registry/states.test.ts',
};
const AROUND: Classified = {
  deadline: 'test/runs/deadline.test.ts',
  report: 'options',
  run_records: 'test/doors/http/runs.test.ts',
  checkpoint_every: 'processes',
};

const SCORE: Classified = {
  ...SCORING,
  ...DECLARED,
  ...GATE,
  ...SEALS,
  ...AROUND,
  plan: 'test/runs/shards.test.ts',
  shard: 'crossings',
  expect_rows: 'options',
  expect_sha256: 'options',
  control_file: 'options',
  trailer: 'test/inspect/scored-total-line.test.ts',
  metrics_file: 'options',
  push_gateway: 'test/doors/commands/left-metrics.test.ts',
  resume: 'processes',
  restart: 'options',
};

const SHARDS: Classified = {
  ...SCORING,
  ...GATE,
  ...SEALS,
  ...AROUND,
  shards: 'crossings',
  shard: 'crossings',
  work: 'crossings',
  plan_wait: 'crossings',
  keep_parts: 'test/runs/shared-shards.test.ts',
  metrics_file: 'test/doors/commands/left-metrics.test.ts',
  push_gateway: 'test/doors/commands/left-metrics.test.ts',
};

/** Keys of a pipeline, by their path; a key with keys of its own is classified as a whole unless they are listed. */
const PIPELINE: Classified = {
  model: 'crossings',
  'score.*': 'crossings',
  'score.interactions': 'interpretation',
  'score.max_evaluations': 'test/runs/asked-models.test.ts',
  'score.batch_wait_ms': 'test/connectors/kafka/pipeline.test.ts',
  'score.record_bytes': 'options',
  'score.max_columns': 'test/formats/decode',
  on_invalid: 'crossings',
  allow_empty: 'crossings',
  manifest: 'crossings',
  deadline: 'test/runs/deadline.test.ts',
  checkpoint_every: 'processes',
  report: 'options',
  run_records: 'test/doors/http/runs.test.ts',
  delivery: 'test/runs/pipelines.test.ts',
  transaction_rows: 'test/connectors/kafka/processor.test.ts',
  commit_interval_ms: 'test/connectors/kafka/processor.test.ts',
  transaction_timeout_ms: 'test/connectors/kafka/topic-table.test.ts',
  'kafka.*': 'test/connectors/kafka/client',
  'kafka.brokers': 'servers',
  'schema_registry.*': 'test/connectors/kafka/schema-registry.test.ts',
  ...Object.fromEntries(Object.entries(GATE).map(([key, where]) => [`gate.${key}`, where])),
  ...SEALS,
  // Sources.
  'source.file.*': 'crossings',
  'source.file.expect.*': 'options',
  'source.file.control.*': 'options',
  'source.file.done_file': 'test/runs/control-totals.test.ts',
  'source.file.trailer.*': 'test/runs/control-totals.test.ts',
  'source.stdio.*': 'processes',
  'source.stdio.trailer.*': 'test/runs/control-totals.test.ts',
  'source.postgres.*': 'servers',
  'source.postgres.query': 'test/connectors/postgres/query-source.test.ts',
  'source.postgres.connect_timeout_ms': 'test/connectors/postgres/query-source.test.ts',
  'source.postgres.statement_timeout_ms': 'test/connectors/postgres/query-source.test.ts',
  'source.upload.*': 'test/connectors/kafka/upload.test.ts',
  'source.kafka.*': 'test/connectors/kafka/pipeline.test.ts',
  'source.kafka.topic': 'servers',
  'source.kafka.format': 'test/connectors/kafka/schemas.test.ts',
  'source.kafka.reader_schema.*': 'test/connectors/kafka/schemas.test.ts',
  'source.kafka.topics': 'test/connectors/kafka/several-topics.test.ts',
  'source.kafka.topic_pattern': 'test/connectors/kafka/several-topics.test.ts',
  // Sinks.
  'sink.file.*': 'crossings',
  'sink.file.roll_rows': 'test/connectors/kafka/pipeline.test.ts',
  'sink.file.roll_ms': 'test/runs/read-pipeline.test.ts',
  'sink.stdio.*': 'processes',
  'sink.postgres.*': 'servers',
  'sink.postgres.key': 'test/connectors/postgres/table-sink.test.ts',
  'sink.postgres.mode': 'test/connectors/postgres/table-sink.test.ts',
  'sink.postgres.connect_timeout_ms': 'test/connectors/postgres/table-sink.test.ts',
  'sink.postgres.statement_timeout_ms': 'test/connectors/postgres/table-sink.test.ts',
  'sink.kafka.*': 'test/connectors/kafka/pipeline.test.ts',
  'sink.kafka.format': 'test/connectors/kafka/schemas.test.ts',
  'sink.kafka.topic': 'servers',
  'dead_letter.file.*': 'crossings',
  'dead_letter.postgres.*': 'test/connectors/kafka/topic-table.test.ts',
  'dead_letter.kafka.*': 'test/connectors/kafka/doors.test.ts',
  'dead_letter.kafka.retry.*': 'test/connectors/kafka/retries.test.ts',
};

const QUERY: Classified = {
  modelId: 'crossings',
  delimiter: 'crossings',
  passthrough: 'crossings',
  on_invalid: 'crossings',
  interpret_below: 'test/doors/http/upload.test.ts',
  top_effects: 'crossings',
  interactions: 'interpretation',
  max_evaluations: 'test/inference/explain/budget.test.ts',
};

// The types of the library have no values to look at: the compiler wants every key here.
const LIBRARY: Record<keyof ScoreStreamOptions | keyof OpenModelOptions, keyof typeof CROSSED | `test/${string}`> = {
  format: 'crossings',
  delimiter: 'crossings',
  output: 'crossings',
  passthrough: 'crossings',
  interpretation: 'crossings',
  interactions: 'interpretation',
  onInvalid: 'crossings',
  maxRowBytes: 'options',
  signal: 'test/docs/library.test.ts',
  registry: 'crossings',
  workers: 'crossings',
  evaluator: 'options',
};

const isGroup = (schema: TSchema): schema is TSchema & { properties: Record<string, TSchema> } =>
  'properties' in schema;

/** The paths of all keys of a schema that have a value of their own. */
function pathsOf(schema: TSchema, at: string): string[] {
  if (!isGroup(schema)) return [at];
  return Object.entries(schema.properties).flatMap(([key, inner]) => pathsOf(inner, at === '' ? key : `${at}.${key}`));
}

/** Whether an option is listed, or a group above it. */
function isClassified(option: string, classified: Classified): boolean {
  if (option in classified) return true;
  const parts = option.split('.');
  return parts.some((_, i) => `${parts.slice(0, i + 1).join('.')}.*` in classified);
}

const unclassified = (options: readonly string[], classified: Classified): string[] =>
  options
    .filter((option) => !isClassified(option, classified))
    .map((option) => `option ${option} is not covered by the crossings: classify it`);

/** Listed options that no longer exist. */
function outdated(options: readonly string[], classified: Classified): string[] {
  return Object.keys(classified).filter((key) =>
    key.endsWith('.*') ? !options.some((option) => option.startsWith(key.slice(0, -1))) : !options.includes(key),
  );
}

test('flags of score', () => {
  const flags = Object.keys(SCORE_COMMANDS.score.flags);
  expect(flags.length).toBeGreaterThan(40);
  expect(unclassified(flags, SCORE)).toEqual([]);
});

test('flags of shards', () => {
  const flags = Object.keys(SHARD_COMMANDS.shards!.flags);
  expect(flags.length).toBeGreaterThan(20);
  expect(unclassified(flags, SHARDS)).toEqual([]);
});

test('keys of pipelines', () => {
  const ends = (name: string, types: Record<string, TSchema>) =>
    Object.entries(types).flatMap(([type, schema]) => pathsOf(schema, `${name}.${type}`));
  const common = pathsOf(pipelineSchema(SOURCES.file, SINKS.file, DEAD_LETTERS.file, FEATURE_KEYS), '').filter(
    (key) => !/^(source|sink|dead_letter)\./.test(key),
  );
  const paths = [...common, ...ends('source', SOURCES), ...ends('sink', SINKS), ...ends('dead_letter', DEAD_LETTERS)];
  expect(paths.length).toBeGreaterThan(120);
  expect([unclassified(paths, PIPELINE), outdated(paths, PIPELINE)]).toEqual([[], []]);
});

test('query parameters', () => {
  expect(Object.keys(QUERY).sort()).toEqual(Object.keys(PREDICT_QUERY.properties).sort());
});

/** The text of a test file, or of all below a folder. */
function textOf(place: string): string {
  if (!statSync(place).isDirectory()) return readFileSync(place, 'utf8');
  return readdirSync(place, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(path.join(place, name), 'utf8'))
    .join('\n');
}

/** The spellings of an option: a key, a flag, a name of the library. */
function spellings(option: string): string[] {
  const name = option.split('.').at(-1)!;
  const camel = name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
  return [name, name.replaceAll('_', '-'), camel];
}

test('a test that is named has the option', () => {
  const named = [SCORE, SHARDS, PIPELINE, QUERY, LIBRARY].flatMap((classified) => Object.entries(classified));
  const texts = new Map<string, string>();
  const without = named.filter(([option, where]) => {
    const place = where in CROSSED ? CROSSED[where as keyof typeof CROSSED] : where;
    if (!existsSync(place)) return true;
    if (where in CROSSED || option.endsWith('.*')) return false;
    if (!texts.has(place)) texts.set(place, textOf(place));
    return !spellings(option).some((spelling) => texts.get(place)!.includes(spelling));
  });
  expect(without.map(([option, where]) => `${option} is not in ${where}`)).toEqual([]);
});

/** The choices of an option in its schema. */
const choicesOf = (schema: TSchema): string[] => (schema as unknown as { enum: string[] }).enum;

test('combinations have every choice of the options that they vary', () => {
  const cases = fc.sample(combinations({ entries: ENTRIES, models: ['trees', 'classes', 'value'] }), { numRuns: 2_000, seed: 1 }); // biome-ignore format: one line
  const options = fc.sample(runOptions(), { numRuns: 500, seed: 1 });
  const { flags } = SCORE_COMMANDS.score;
  const ofCase: [string, TSchema, (c: Case) => unknown][] = [
    ['input_format', flags.input_format.schema, (c) => c.input],
    ['format', flags.format.schema, (c) => c.output],
    ['input_compression', flags.input_compression.schema, (c) => c.inputCompression],
    ['compression', flags.compression.schema, (c) => c.outputCompression],
    ['delimiter', flags.delimiter.schema, (c) => c.delimiter],
    ['encoding', flags.encoding.schema, (c) => c.declared.encoding],
    ['decimal', flags.decimal.schema, (c) => c.declared.decimal],
    ['thousands', flags.thousands.schema, (c) => c.declared.thousands],
    ['on_invalid', flags.on_invalid.schema, (c) => c.onInvalid],
  ];
  for (const [name, schema, read] of ofCase) {
    const seen = new Set(cases.map(read));
    const choices = choicesOf(schema);
    expect(choices.length, name).toBeGreaterThan(1);
    expect(
      choices.filter((choice) => !seen.has(choice)),
      `${name}: choices that no combination has`,
    ).toEqual([]);
  }
  const evaluators = new Set(options.map((o: RunOptions) => o.evaluator));
  expect([...evaluators].sort()).toEqual([...choicesOf(flags.evaluator.schema)].sort());
});
