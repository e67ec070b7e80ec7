// Reads pipelines/*.yaml. A file that is in order is read by generated checks; the schema library is loaded to explain one that is not.
import { readFile } from 'node:fs/promises';
import { PIPELINE_CHECKS } from '../config/pipeline-check.ts';
import { readYaml, type YamlDocument } from '../config/yaml.ts';
import { formatProblem, type Validated } from '../config/yaml-problem.ts';
import { SluiceError } from '../core/errors.ts';
import { contradictions } from './pipeline-contradictions.ts';
import { fillDefaults, withDependentDefaults } from './pipeline-from-flags.ts';
import type { Pipeline, PipelineFile } from './pipeline-schema.ts';

/** Parses and checks the text of a pipeline; every fault at once, each with its place. */
export async function parsePipeline(file: string, content: string): Promise<Validated<Pipeline>> {
  const read = readYaml(file, content);
  if (!read.ok) return read;
  const value = parseByChecks(read);
  if (value) return complete(file, value, read);
  const { parseBySchema } = await import('./pipeline-explain.ts');
  const parsed = await parseBySchema(file, content);
  return parsed.ok ? complete(file, parsed.value, read) : parsed;
}

/** Reads a pipeline file. @throws SluiceError usage with every fault as file:line:column */
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

/** The document as a pipeline with its defaults, or null where the schema has something to say. */
export function parseByChecks({ value }: YamlDocument): PipelineFile | null {
  if (!PIPELINE_CHECKS.common(value)) return null;
  const pipeline = structuredClone(value) as Mapping;
  for (const end of ['source', 'sink', 'dead_letter'] as const) {
    const part = pipeline[end] as Mapping | undefined;
    if (part === undefined) continue;
    // The common part has checked that the type is a known one.
    const type = part.type as string;
    if (!PIPELINE_CHECKS[end][type]!(part)) return null;
  }
  fillDefaults(pipeline);
  return pipeline as unknown as PipelineFile;
}

/** Adds the defaults that depend on other keys, and looks for contradictions. */
async function complete(file: string, value: PipelineFile, document: YamlDocument): Promise<Validated<Pipeline>> {
  const pipeline = withDependentDefaults(file, value);
  const problems = await contradictions(pipeline, document);
  return problems.length > 0 ? { ok: false, problems } : { ok: true, value: pipeline };
}
