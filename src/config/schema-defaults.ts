// What a schema says about keys that may be left out because they have defaults.
import type { TSchema } from 'typebox';

interface Node {
  type?: string;
  properties?: Record<string, TSchema & { default?: unknown }>;
  required?: string[];
  items?: TSchema;
}

/** The same schema in which every key with a default may be missing. */
export function withoutDefaults(schema: TSchema): TSchema {
  const node = schema as Node;
  if (node.type === 'array' && node.items) return { ...schema, items: withoutDefaults(node.items) } as TSchema;
  if (node.type !== 'object' || !node.properties) return schema;
  const properties = Object.fromEntries(Object.entries(node.properties).map(([k, v]) => [k, withoutDefaults(v)]));
  const required = (node.required ?? []).filter((k) => node.properties![k]!.default === undefined);
  return { ...schema, properties, required } as TSchema;
}

export type Defaults = readonly (readonly [path: readonly string[], value: unknown])[];

/** The defaults of a mapping as plain data: keys with their values, outer ones first. Those of a mapping without default count where it is there. */
export function defaultsOf(schema: TSchema, path: readonly string[] = []): Defaults {
  return Object.entries((schema as Node).properties ?? {}).flatMap(([key, child]) => [
    ...(child.default === undefined ? [] : [[[...path, key], child.default] as const]),
    ...defaultsOf(child, [...path, key]),
  ]);
}
