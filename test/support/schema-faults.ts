// Compares values with the JSON Schemas of the OpenAPI document, and reports every property that a schema does not describe.

export interface JsonSchema {
  $ref?: string;
  type?: string | readonly string[];
  enum?: readonly unknown[];
  required?: readonly string[];
  properties?: Record<string, JsonSchema>;
  additionalProperties?: JsonSchema | boolean;
  items?: JsonSchema;
  anyOf?: readonly JsonSchema[];
  oneOf?: readonly JsonSchema[];
}

const typeOf = (v: unknown): string => (v === null ? 'null' : Array.isArray(v) ? 'array' : typeof v);

interface Place {
  /** Name of the value in the faults. */
  at?: string;
  /** Schemas that others refer to. */
  named?: Readonly<Record<string, JsonSchema>>;
}

export function schemaFaults(
  schema: JsonSchema,
  value: unknown,
  { at = 'prediction', named = {} }: Place = {},
): string[] {
  const inner = (one: JsonSchema, of: unknown, where: string): string[] => schemaFaults(one, of, { at: where, named });
  if (schema.$ref !== undefined) return inner(named[schema.$ref.split('/').at(-1)!]!, value, at);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) {
    const all = choices.map((one) => inner(one, value, at));
    return all.some((found) => found.length === 0) ? [] : all.flat();
  }
  const type = typeOf(value);
  const types = [schema.type ?? type].flat();
  if (!types.includes(type) && !(types.includes('integer') && Number.isInteger(value))) return [`${at} is ${type}`];
  if (schema.enum && !schema.enum.includes(value)) return [`${at} is ${value}`];
  if (Array.isArray(value)) return value.flatMap((v, i) => (schema.items ? inner(schema.items, v, `${at}.${i}`) : []));
  if (type !== 'object') return [];
  const missing = (schema.required ?? []).filter((k) => !(k in (value as object))).map((k) => `${at} lacks ${k}`);
  // An object without described properties may have any.
  if (!schema.properties && !schema.additionalProperties) return missing;
  const members = Object.entries(value as object).flatMap(([k, v]) => {
    const known = schema.properties?.[k] ?? schema.additionalProperties;
    if (known === true) return [];
    return known ? inner(known, v, `${at}.${k}`) : [`${at}.${k} is in no schema`];
  });
  return [...missing, ...members];
}
