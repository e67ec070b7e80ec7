// Tests of a pipeline (`*.test.yaml`): applications with their expected predictions.
import { readFile } from 'node:fs/promises';
import { type Static, Type } from 'typebox';
import { parseYaml } from '../../config/yaml-document.ts';
import { formatProblem } from '../../config/yaml-problem.ts';
import { SluiceError } from '../../core/errors.ts';
import type { ModelHost } from '../../engine/model-host.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import { recordScorer } from '../topics/record-scorer.ts';

const CaseSchema = Type.Object(
  {
    name: Type.Optional(Type.String()),
    input: Type.Record(Type.String(), Type.Unknown(), { description: 'the application' }),
    expect: Type.Record(Type.String(), Type.Unknown(), {
      description: 'keys of the prediction; of an invalid application: error: {code, column}',
    }),
    tolerance: Type.Optional(Type.Number({ minimum: 0, description: 'of numbers; default 1e-6' })),
  },
  { additionalProperties: false },
);
const PipelineTestSchema = Type.Object(
  { cases: Type.Array(CaseSchema, { minItems: 1 }) },
  { additionalProperties: false },
);

interface CaseResult {
  name: string;
  /** Null if the test passed. */
  failure: string | null;
}

/** `x.yaml` → `x.test.yaml` */
const testFileOf = (pipelineFile: string): string => pipelineFile.replace(/\.ya?ml$/i, '.test.yaml');

/** The cases of a test file. @throws SluiceError usage: the file cannot be read, or a key is wrong */
export async function readPipelineTests(file: string): Promise<Static<typeof PipelineTestSchema>['cases']> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new SluiceError('usage', `${file} cannot be read`, { cause });
  }
  const parsed = parseYaml(file, text, PipelineTestSchema);
  if (!parsed.ok) throw new SluiceError('usage', parsed.problems.map(formatProblem).join('\n'));
  return parsed.value.cases;
}

/** Runs the test cases of a pipeline without opening its sources and sinks. @throws SluiceError usage | model_* */
export async function runPipelineTests(pipeline: Pipeline, host: ModelHost): Promise<CaseResult[]> {
  const cases = await readPipelineTests(testFileOf(pipeline.file));
  const scorer = recordScorer(pipeline, host);
  try {
    const { answers } = await scorer.score(cases.map((c) => Buffer.from(JSON.stringify(c.input))));
    return cases.map((c, i) => {
      const { value } = answers[i]!;
      const got: unknown = JSON.parse(value.toString('utf8'));
      return { name: c.name ?? `case ${i + 1}`, failure: differenceOf(c.expect, got, c.tolerance ?? 1e-6, '') };
    });
  } finally {
    scorer.close();
  }
}

/**
 * Describes how `got` differs from the expected value; null if both are equal. Keys without an expected value are
 * ignored.
 */
function differenceOf(want: unknown, got: unknown, tolerance: number, at: string): string | null {
  const where = at === '' ? 'the prediction' : at;
  if (typeof want === 'number' && typeof got === 'number') {
    return Math.abs(want - got) <= tolerance ? null : `${where} is ${got}, expected ${want} ± ${tolerance}`;
  }
  if (Array.isArray(want)) {
    if (!Array.isArray(got) || got.length !== want.length)
      return `${where} is ${JSON.stringify(got)}, expected ${want.length} entries`;
    return first(want.map((w, i) => differenceOf(w, got[i], tolerance, `${where}[${i}]`)));
  }
  if (typeof want === 'object' && want !== null) {
    if (typeof got !== 'object' || got === null)
      return `${where} is ${JSON.stringify(got)}, expected ${JSON.stringify(want)}`;
    const found = got as Record<string, unknown>;
    return first(
      Object.entries(want).map(([k, w]) => differenceOf(w, found[k], tolerance, at === '' ? k : `${at}.${k}`)),
    );
  }
  return want === got ? null : `${where} is ${JSON.stringify(got)}, expected ${JSON.stringify(want)}`;
}

const first = (list: (string | null)[]): string | null => list.find((x) => x !== null) ?? null;
