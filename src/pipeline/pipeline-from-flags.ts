// Completes a pipeline that flags describe. Loads neither checks nor YAML, so that commands start sooner.

import { PIPELINE_DEFAULTS } from '../config/pipeline-defaults.ts';
import type { Defaults } from '../config/schema-defaults.ts';
import { connectorOf } from '../connectors/connectors.ts';
import type { Pipeline, PipelineFile } from './pipeline-schema.ts';

type Mapping = Record<string, unknown>;

/** What a pipeline says, without what has a default. */
type PipelineSaid = Pick<PipelineFile, 'model' | 'source' | 'sink'> & {
  score?: Partial<PipelineFile['score']>;
  dead_letter?: NonNullable<PipelineFile['dead_letter']>;
  on_invalid?: Pipeline['on_invalid'];
  allow_empty?: boolean;
  deadline?: string;
  checkpoint_every?: number;
  report?: string;
  gate?: NonNullable<PipelineFile['gate']>;
};

/** A pipeline that is in no file: `said` with the defaults of the schema. */
export function pipelineOf(said: PipelineSaid): Pipeline {
  const value = structuredClone(said) as unknown as Mapping;
  fillDefaults(value);
  return withDependentDefaults('', value as unknown as PipelineFile);
}

/** Puts the defaults of the schema in where nothing is said. */
export function fillDefaults(pipeline: Record<string, unknown>): void {
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

/** The defaults that depend on other keys. */
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
