// Checks a pipeline against its schema and reports all errors together. This file loads the schema library, so it is
// imported only for invalid files.
import type { TSchema } from 'typebox';
import { Value } from 'typebox/value';
import { withoutDefaults } from '../config/schema.ts';
import { readYaml } from '../config/yaml.ts';
import { checkYaml } from '../config/yaml-document.ts';
import type { Validated } from '../config/yaml-problem.ts';
import { endSchemas } from '../connectors/connectors.ts';
import { type PipelineFile, pipelineSchema, typeOnly } from './pipeline-schema.ts';

/**
 * Parses a pipeline with the schema that its types select. If the type of a source or sink is unknown, only the valid
 * types are reported. `features`: options of run features.
 */
export function parseBySchema(
  file: string,
  content: string,
  features: Readonly<Record<string, TSchema>>,
): Validated<PipelineFile> {
  const read = readYaml(file, content);
  if (!read.ok) return read;
  const { source, sink, dead_letter } = (read.value ?? {}) as Record<string, unknown>;
  const { sources, sinks, deadLetters } = endSchemas();
  const schema = pipelineSchema(
    byType(sources, source),
    byType(sinks, sink),
    // The dead letters are checked by their own type alone.
    byType(deadLetters, dead_letter),
    features,
  );
  // The file is checked against a schema without defaults, because keys that have a default may be absent.
  const judged = checkYaml(read, withoutDefaults(schema));
  if (!judged.ok) return judged;
  return { ok: true, value: Value.Default(schema, structuredClone(judged.value)) as PipelineFile };
}

function byType<T extends Readonly<Record<string, object>>>(types: T, value: unknown): T[keyof T] {
  const type = (value as { type?: unknown } | null | undefined)?.type;
  if (typeof type === 'string' && Object.hasOwn(types, type)) return types[type as keyof T];
  return typeOnly(types as never) as unknown as T[keyof T];
}
