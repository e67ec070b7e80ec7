// Schemas of options as plain data, with the types of typebox. Loading typebox takes 95 ms; creating and checking a
// pipeline with the functions of this file takes 2 ms.
import type { TSchema, Type as TypeBox } from 'typebox';

type Builder = Pick<
  typeof TypeBox,
  | 'Array'
  | 'Boolean'
  | 'Enum'
  | 'Integer'
  | 'Literal'
  | 'Number'
  | 'Object'
  | 'Optional'
  | 'Record'
  | 'String'
  | 'Tuple'
  | 'Union'
  | 'Unsafe'
>;

interface Node {
  type?: string;
  properties?: Readonly<Record<string, Node>>;
  required?: readonly string[];
  patternProperties?: Readonly<Record<string, Node>>;
  additionalProperties?: boolean;
  items?: Node | readonly Node[];
  additionalItems?: false;
  minItems?: number;
  anyOf?: readonly Node[];
  enum?: readonly unknown[];
  const?: unknown;
  pattern?: string;
  minLength?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  default?: unknown;
  description?: string;
}

/**
 * Sets a marker property of typebox. As in typebox, the property is not enumerable: typebox reads it, but JSON omits
 * it.
 */
function marked(node: object, mark: '~kind' | '~optional' | '~unsafe', value: unknown): object {
  return Object.defineProperty(node, mark, { value, configurable: true, writable: true, enumerable: false });
}

const made = (kind: string, node: Node, options: object = {}) => marked({ ...node, ...options }, '~kind', kind);
const copyOf = (node: object): object => Object.create(Object.prototype, Object.getOwnPropertyDescriptors(node));

/** Creates the same schemas as typebox's `Type`. */
export const Type = {
  Array: (items: Node, options?: object) => made('Array', { type: 'array', items }, options),
  Boolean: (options?: object) => made('Boolean', { type: 'boolean' }, options),
  Enum: (values: readonly unknown[], options?: object) => made('Enum', { enum: values }, options),
  Integer: (options?: object) => made('Integer', { type: 'integer' }, options),
  Literal: (value: unknown, options?: object) => made('Literal', { type: typeof value, const: value }, options),
  Number: (options?: object) => made('Number', { type: 'number' }, options),
  Object(properties: Readonly<Record<string, Node>>, options?: object) {
    const required = Object.keys(properties).filter((key) => !('~optional' in properties[key]!));
    return made('Object', { type: 'object', ...(required.length > 0 ? { required } : {}), properties }, options);
  },
  Optional: (schema: Node) => marked(copyOf(schema), '~optional', true),
  Record: ({ pattern = '^.*$' }: Node, value: Node, options?: object) =>
    made('Record', { type: 'object', patternProperties: { [pattern]: value } }, options),
  String: (options?: object) => made('String', { type: 'string' }, options),
  Tuple: (items: readonly Node[], options?: object) =>
    made('Tuple', { type: 'array', additionalItems: false, items, minItems: items.length }, options),
  Union: (anyOf: readonly Node[], options?: object) => made('Union', { anyOf }, options),
  Unsafe: (schema: Node) => marked(copyOf(schema), '~unsafe', null),
} as unknown as Builder;

type Check = (value: unknown) => boolean;

const checks = new WeakMap<object, Check>();

/** Whether a value fits a schema, as typebox's `Value.Check`. To explain errors, typebox itself is needed. */
export const fits = (schema: TSchema, value: unknown): boolean => checkOf(schema as Node)(value);

/** Each schema is compiled only once, because a model.yaml may have hundreds of thousands of categories. */
function checkOf(node: Node): Check {
  const known = checks.get(node);
  if (known) return known;
  const all = Object.entries(node).flatMap(([keyword, operand]) => {
    if (KEYWORDS_WITHOUT_CHECK.has(keyword)) return [];
    const make = CHECKS[keyword];
    if (!make) throw new Error(`the keyword ${keyword} has no check`);
    return [make(operand as never, node)];
  });
  const check: Check = (value) => all.every((one) => one(value));
  checks.set(node, check);
  return check;
}

type Mapping = Record<string, unknown>;

const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const TYPES: Readonly<Record<string, Check>> = {
  string: (value) => typeof value === 'string',
  boolean: (value) => typeof value === 'boolean',
  integer: Number.isInteger,
  number: Number.isFinite,
  array: Array.isArray,
  object: isMapping,
};

/** Keywords that only describe, and keywords that another keyword evaluates. */
const KEYWORDS_WITHOUT_CHECK = new Set(['default', 'description', 'additionalItems']);

/** As in JSON Schema, a keyword for one type accepts values of all other types; the keyword `type` rejects them. */
const CHECKS: Readonly<Record<string, (operand: never, node: Node) => Check>> = {
  type: (type: string) => TYPES[type]!,
  enum: (values: readonly unknown[]) => (value) => values.includes(value),
  const: (constant: unknown) => (value) => value === constant,
  anyOf(nodes: readonly Node[]) {
    const all = nodes.map(checkOf);
    return (value) => all.some((check) => check(value));
  },
  required: (names: readonly string[]) => (value) =>
    !isMapping(value) || names.every((name) => Object.hasOwn(value, name)),
  properties(properties: Readonly<Record<string, Node>>) {
    const all = Object.entries(properties).map(([name, node]) => [name, checkOf(node)] as const);
    return (value) =>
      !isMapping(value) || all.every(([name, check]) => !Object.hasOwn(value, name) || check(value[name]));
  },
  patternProperties(patterns: Readonly<Record<string, Node>>) {
    const all = Object.entries(patterns).map(([pattern, node]) => [new RegExp(pattern, 'u'), checkOf(node)] as const);
    return (value) =>
      !isMapping(value) ||
      Object.entries(value).every(([name, inner]) => all.every(([key, check]) => !key.test(name) || check(inner)));
  },
  additionalProperties(allowed: boolean, { properties = {}, patternProperties = {} }) {
    if (allowed) return () => true;
    const patterns = Object.keys(patternProperties).map((pattern) => new RegExp(pattern, 'u'));
    const isKnown = (name: string) => Object.hasOwn(properties, name) || patterns.some((key) => key.test(name));
    return (value) => !isMapping(value) || Object.keys(value).every(isKnown);
  },
  items(items: Node | readonly Node[]) {
    if ('length' in items) {
      const all = items.map(checkOf);
      return (value) =>
        !Array.isArray(value) || (value.length <= all.length && value.every((item, i) => all[i]!(item)));
    }
    const check = checkOf(items);
    return (value) => !Array.isArray(value) || value.every(check);
  },
  minItems: (least: number) => (value) => !Array.isArray(value) || value.length >= least,
  pattern(pattern: string) {
    const expression = new RegExp(pattern, 'u');
    return (value) => typeof value !== 'string' || expression.test(value);
  },
  minLength: (least: number) => (value) =>
    typeof value !== 'string' || (value.length >= least && (least < 2 || [...value].length >= least)),
  minimum: (least: number) => (value) => typeof value !== 'number' || value >= least,
  maximum: (most: number) => (value) => typeof value !== 'number' || value <= most,
  exclusiveMinimum: (bound: number) => (value) => typeof value !== 'number' || value > bound,
};

// Defaults of keys.

/** The same schema, but keys that have a default are optional. */
export function withoutDefaults(schema: TSchema): TSchema {
  const node = schema as Node;
  if (node.type === 'array' && node.items) {
    return { ...schema, items: withoutDefaults(node.items as TSchema) } as TSchema;
  }
  if (node.type !== 'object' || !node.properties) return schema;
  const properties = Object.fromEntries(
    Object.entries(node.properties).map(([key, inner]) => [key, withoutDefaults(inner as TSchema)]),
  );
  const required = (node.required ?? []).filter((key) => node.properties![key]!.default === undefined);
  return { ...schema, properties, required } as TSchema;
}

type Defaults = readonly (readonly [path: readonly string[], value: unknown])[];

/** The defaults in a mapping, with the paths of their keys. Outer keys come first. */
function defaultsOf(node: Node, path: readonly string[] = []): Defaults {
  return Object.entries(node.properties ?? {}).flatMap(([key, child]) => [
    ...(child.default === undefined ? [] : [[[...path, key], child.default] as const]),
    ...defaultsOf(child, [...path, key]),
  ]);
}

/**
 * Adds defaults for missing keys. If a nested mapping has no default itself, its keys get defaults only if the mapping
 * is present.
 */
export function fillDefaults(mapping: Record<string, unknown>, schema: TSchema): void {
  for (const [path, value] of defaultsOf(schema as Node)) {
    let at: Mapping | undefined = mapping;
    for (const key of path.slice(0, -1)) at = at?.[key] as Mapping | undefined;
    const key = path.at(-1)!;
    if (at && at[key] === undefined) at[key] = structuredClone(value);
  }
}
