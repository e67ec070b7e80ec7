// Reads pipeline files (pipelines/*.yaml). The schema library is loaded only to explain an invalid file.
import { readFile } from 'node:fs/promises';
import { fits, withoutDefaults } from '../config/schema.ts';
import { readYaml, type YamlDocument } from '../config/yaml.ts';
import { formatProblem, type Validated, type YamlProblem } from '../config/yaml-problem.ts';
import { connectorOf } from '../connectors/connectors.ts';
import { SluiceError } from '../core/errors.ts';
import { contradictions } from '../pipeline/pipeline-contradictions.ts';
import type { Pipeline, PipelineFile } from '../pipeline/pipeline-schema.ts';
import {
  END_SCHEMAS,
  FEATURE_KEYS,
  fillPipeline,
  KEYS_OF_ALL_PIPELINES,
  withDependentDefaults,
} from './complete-pipeline.ts';

/** Parses and checks the text of a pipeline. Reports all errors together, each with its position. */
export async function parsePipeline(file: string, content: string): Promise<Validated<Pipeline>> {
  const read = readYaml(file, content);
  if (!read.ok) return read;
  const value = parseByChecks(read);
  if (value) return complete(file, value, read);
  const { parseBySchema } = await import('../pipeline/pipeline-explain.ts');
  const parsed = parseBySchema(file, content, FEATURE_KEYS);
  return parsed.ok ? complete(file, parsed.value, read) : parsed;
}

/** Reads a pipeline file. @throws SluiceError usage: lists every error as file:line:column */
export async function readPipeline(file: string): Promise<Pipeline> {
  let content: string;
  try {
    content = await readFile(file, 'utf8');
  } catch (cause) {
    throw new SluiceError('usage', `${file} cannot be read`, { cause });
  }
  const parsed = await parsePipeline(file, content);
  if (!parsed.ok) throw new SluiceError('usage', parsed.problems.map(formatProblem).join('\n'));
  return parsed.value;
}

type Mapping = Record<string, unknown>;

/** Returns the document as a pipeline with defaults; null if the document violates the schema. */
export function parseByChecks({ value }: YamlDocument): PipelineFile | null {
  if (!fits(withoutDefaults(KEYS_OF_ALL_PIPELINES), value)) return null;
  const pipeline = structuredClone(value) as Mapping;
  for (const [end, schemas] of Object.entries(END_SCHEMAS)) {
    const part = pipeline[end] as Mapping | undefined;
    if (part === undefined) continue;
    // The type is known: the check against KEYS_OF_ALL_PIPELINES has passed.
    if (!fits(withoutDefaults(schemas[part.type as string]!), part)) return null;
  }
  fillPipeline(pipeline);
  return pipeline as unknown as PipelineFile;
}

/** Adds the defaults that depend on other keys, and checks for contradictions. */
async function complete(file: string, value: PipelineFile, document: YamlDocument): Promise<Validated<Pipeline>> {
  const pipeline = withDependentDefaults(file, value);
  const problems = [...(await contradictions(pipeline, document)), ...misplacedFeatures(pipeline, document)];
  return problems.length > 0 ? { ok: false, problems } : { ok: true, value: pipeline };
}

/**
 * Rejects options of features that only runs of files support. Options with a default are not checked, because every
 * pipeline has them.
 */
function misplacedFeatures(pipeline: Pipeline, { atPath }: YamlDocument): YamlProblem[] {
  const { reads } = connectorOf(pipeline.source).capabilities;
  if (reads === 'bytes' || reads === 'rows') return [];
  const names = Object.keys(FEATURE_KEYS).filter((name) => !('default' in FEATURE_KEYS[name]!) && name in pipeline);
  return names.map((name) => atPath([name], `${name}: is for files, queries and standard input`, true));
}
