// Combinations of features through every entry point do what the oracle says, field by field.
import { expect, test } from 'vitest';
import { ScoreSchema } from '../../src/config/pipeline-schema.ts';
import { COMMAND_TABLES } from '../../src/doors/commands/flag-tables.ts';
import { TIER } from '../support/tiers.ts';
import { ENTRIES, type Entry } from './combinations.ts';
import { cross, openJudge } from './cross.ts';

openJudge();

const MODELS = ['trees', 'classes', 'value'] as const;
/** Of few combinations most go through commands, which have the most to cross; of very many, through what is fast. */
const SHARES: Record<Entry, number> =
  TIER === 'campaigns'
    ? { command: 0.015, pipeline: 0.003, shards: 0.0005, library: 0.93, http: 0.05 }
    : { command: 0.35, pipeline: 0.06, shards: 0.03, library: 0.35, http: 0.2 };

test.each(ENTRIES)('%s', (entry) => cross({ entries: [entry], models: MODELS }, SHARES[entry]));

test('a model that ONNX Runtime serves', () =>
  cross({ entries: ['library', 'http'], models: ['typed-columns'] }, 0.01));

/** Flags of `sluice score` and what about them the combinations vary. A flag that is new has to be put into one of both lists. */
const VARIED = [
  'model', 'output', 'rejects', 'input-format', 'input-compression', 'delimiter', 'columns', 'rename', 'ignore', 'constants', 'encoding',
  'decimal', 'thousands', 'trim', 'null-values', 'format', 'compression', 'passthrough', 'interpretation', 'top', 'interpret-below',
  'on-invalid', 'allow-empty', 'workers', 'batch-rows', 'block-bytes', 'read-bytes', 'no-manifest', 'max-rejects', 'registry', 'quiet',
  'plan', 'shard',
]; // biome-ignore format: a list
/** Those that do not change what a row becomes, or that tests of their own cross with formats. */
const APART: Record<string, string> = {
  'expect-rows': 'test/runs/control-totals.test.ts',
  'expect-sha256': 'test/runs/control-totals.test.ts',
  'control-file': 'test/runs/control-totals.test.ts',
  interactions: 'test/runs/interactions.test.ts',
  'max-evaluations': 'test/runs/asked-models.test.ts',
  evaluator: 'the oracle is ONNX Runtime, and both evaluators are compared with it',
  'max-row-bytes': 'test/io/source',
  'max-columns': 'test/io/decode',
  'metrics-file': 'test/doors/commands',
  'push-gateway': 'test/doors/commands',
  'sign-key': 'test/runs/sealed-doors.test.ts',
  'require-lock': 'test/runs/sealed-doors.test.ts',
  'require-signature': 'test/runs/sealed-doors.test.ts',
  'require-approval': 'test/runs/sealed-doors.test.ts',
  deadline: 'test/runs/deadline.test.ts',
  resume: 'test/runs/resume.test.ts',
  restart: 'test/runs/resume.test.ts',
  'checkpoint-every': 'test/runs/resume.test.ts',
  'max-missing': 'test/runs/gate.test.ts',
  'max-unseen': 'test/runs/gate.test.ts',
  'max-out-of-range': 'test/runs/gate.test.ts',
  'max-psi': 'test/runs/gate.test.ts',
  'max-score-psi': 'test/runs/gate.test.ts',
  'min-rows': 'test/runs/gate.test.ts',
  report: 'test/report/report.test.ts',
  json: 'test/doors/commands',
};

test('every flag of score is varied by the combinations, or named with the reason why not', () => {
  const flags = COMMAND_TABLES.score.flags.map(({ name }) => name);
  expect(flags.length).toBeGreaterThan(40);
  expect([...flags].sort()).toEqual([...VARIED, ...Object.keys(APART)].sort());
});

test('every key of score in a pipeline is one of the same', () => {
  const keys = Object.keys(ScoreSchema.properties);
  const known = [
    'interpretation', 'interpret_below', 'top_effects', 'interactions', 'max_evaluations', 'passthrough', 'batch_rows', 'batch_wait_ms',
    'workers', 'evaluator', 'record_bytes', 'max_columns',
  ]; // biome-ignore format: a list
  expect(keys.sort()).toEqual(known.sort());
});
