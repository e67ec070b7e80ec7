// Reads pipelines/*.yaml. A file that is in order is read by generated checks; the schema library is loaded to explain one that is not.
import { readFile } from 'node:fs/promises';
import { SluiceError } from '../core/errors.ts';
import { PIPELINE_CHECKS, PIPELINE_DEFAULTS } from './pipeline-check.ts';
import { contradictions } from './pipeline-contradictions.ts';
import type { Pipeline, PipelineFile } from './pipeline-schema.ts';
import type { Defaults } from './schema-defaults.ts';
import { formatProblem, readYaml, type Validated, type YamlDocument } from './yaml.ts';

/** Parses and checks the text of a pipeline; every fault at once, each with its place. */
export async function parsePipeline(file: string, content: string): Promise<Validated<Pipeline>> {
  const read = readYaml(file, content);
  if (!read.ok) return read;
  const value = parseByChecks(read);
  if (value) return complete(file, value, read);
  const { parseBySchema } = await import('./pipeline-explain.ts');
  const parsed = parseBySchema(file, content);
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

/** What a pipeline says, without what has a default. */
export type PipelineSaid = Pick<PipelineFile, 'model' | 'source' | 'sink'> & {
  score?: Partial<PipelineFile['score']>;
  dead_letter?: NonNullable<PipelineFile['dead_letter']>;
  on_invalid?: Pipeline['on_invalid'];
};

/** A pipeline that is in no file: `said` with the defaults of the schema. */
export function pipelineOf(said: PipelineSaid): Pipeline {
  const value = structuredClone(said) as unknown as Mapping;
  fillDefaults(value);
  return withDependentDefaults('', value as unknown as PipelineFile);
}

function fillDefaults(pipeline: Mapping): void {
  for (const end of ['source', 'sink', 'dead_letter'] as const) {
    const part = pipeline[end] as Mapping | undefined;
    if (part) fill(part, PIPELINE_DEFAULTS[end][part.type as string]!);
  }
  fill(pipeline, PIPELINE_DEFAULTS.common);
}

/** Puts in what is missing. */
function fill(mapping: Mapping, defaults: Defaults): void {
  for (const [path, value] of defaults) {
    let at: Mapping | undefined = mapping;
    for (const key of path.slice(0, -1)) at = at?.[key] as Mapping | undefined;
    const key = path.at(-1)!;
    if (at && at[key] === undefined) at[key] = structuredClone(value);
  }
}

/** Adds the defaults that depend on other keys, and looks for contradictions. */
function complete(file: string, value: PipelineFile, document: YamlDocument): Validated<Pipeline> {
  const pipeline = withDependentDefaults(file, value);
  const problems = contradictions(pipeline, document);
  return problems.length > 0 ? { ok: false, problems } : { ok: true, value: pipeline };
}

function withDependentDefaults(file: string, value: PipelineFile): Pipeline {
  const exactly = value.source.type === 'upload' || (value.source.type === 'kafka' && value.sink.type === 'kafka');
  return {
    ...value,
    file,
    on_invalid: value.on_invalid ?? (value.dead_letter ? 'dead_letter' : 'report'),
    delivery: value.delivery ?? (exactly ? 'exactly_once' : 'at_least_once'),
  };
}
