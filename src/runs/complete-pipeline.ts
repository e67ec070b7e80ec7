// Completes a pipeline that comes from flags. Does not load the YAML library, so that commands start faster.
import type { TSchema } from 'typebox';
import { fillDefaults, Type } from '../config/schema.ts';
import { connectorOf, endSchemas } from '../connectors/connectors.ts';
import { type Pipeline, type PipelineFile, pipelineSchema, typeOnly } from '../pipeline/pipeline-schema.ts';
import type { RunOption } from './plugin.ts';
import { RUN_OPTIONS } from './plugins/plugin-list.ts';

type Mapping = Record<string, unknown>;

/** The content of a pipeline, without defaults. */
type PipelineSaid = Pick<PipelineFile, 'model' | 'source' | 'sink'> & {
  score?: Partial<PipelineFile['score']>;
  dead_letter?: NonNullable<PipelineFile['dead_letter']>;
  on_invalid?: Pipeline['on_invalid'];
  allow_empty?: boolean;
  deadline?: string;
  report?: string;
  run_records?: string;
  gate?: NonNullable<PipelineFile['gate']>;
};

/** Completes a pipeline that does not come from a file, with the defaults of the schema. */
export function pipelineOf(said: PipelineSaid): Pipeline {
  const value = structuredClone(said) as unknown as Mapping;
  fillPipeline(value);
  return withDependentDefaults('', value as unknown as PipelineFile);
}

const ENDS = endSchemas();

/** The schemas of source, sink and dead letters, by type. */
export const END_SCHEMAS: Readonly<Record<'source' | 'sink' | 'dead_letter', Readonly<Record<string, TSchema>>>> = {
  source: ENDS.sources,
  sink: ENDS.sinks,
  dead_letter: ENDS.deadLetters,
};

/** The options of run features as keys of a pipeline. Options without a default are optional. */
export const FEATURE_KEYS: Readonly<Record<string, TSchema>> = Object.fromEntries(
  Object.entries<RunOption>(RUN_OPTIONS).map(([name, { schema }]) => [
    name,
    'default' in schema ? schema : Type.Optional(schema),
  ]),
);

/** The schema of the keys that do not depend on the types of source, sink and dead letters. */
export const KEYS_OF_ALL_PIPELINES = pipelineSchema(
  typeOnly(ENDS.sources),
  typeOnly(ENDS.sinks),
  typeOnly(ENDS.deadLetters),
  FEATURE_KEYS,
);

/** Adds the defaults of the schema. */
export function fillPipeline(pipeline: Record<string, unknown>): void {
  for (const [end, schemas] of Object.entries(END_SCHEMAS)) {
    const part = pipeline[end] as Mapping | undefined;
    if (part) fillDefaults(part, schemas[part.type as string]!);
  }
  fillDefaults(pipeline, KEYS_OF_ALL_PIPELINES);
}

/** Adds the defaults that depend on other keys. */
export function withDependentDefaults(file: string, value: PipelineFile): Pipeline {
  const { reads } = connectorOf(value.source).capabilities;
  const { transact } = connectorOf(value.sink).capabilities;
  const exactly = reads === 'requests' || (reads === 'records' && transact);
  return {
    ...value,
    file,
    on_invalid: value.on_invalid ?? (value.dead_letter ? 'dead_letter' : 'report'),
    delivery: value.delivery ?? (exactly ? 'exactly_once' : 'at_least_once'),
  };
}
