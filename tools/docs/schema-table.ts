// Writes the keys of a schema as a Markdown table, for the reference pages.
import type { TSchema } from 'typebox';

type Node = TSchema & {
  type?: string;
  description?: string;
  enum?: string[];
  const?: unknown;
  anyOf?: Node[];
  items?: Node | Node[];
  properties?: Record<string, Node>;
  patternProperties?: Record<string, Node>;
  required?: readonly string[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  default?: unknown;
};

/** One line a key, nested keys by their path. */
export function schemaTable(schema: object): string {
  return ['| key | type | required | default | |', '| --- | --- | --- | --- | --- |', ...rows(schema as Node, '')].join(
    '\n',
  );
}

/** Every key of a schema by its path, alternatives included; `[]` stands for items, `*` for free names. */
export function keysOf(schema: object): string[] {
  return rows(schema as Node, '').map((line) => /^\| `([^`]+)`/.exec(line)![1]!);
}

/** `needed`: what is said of a key that must be there. */
function rows(node: Node, prefix: string, needed = 'yes'): string[] {
  return Object.entries(node.properties ?? {}).flatMap(([name, child]) => {
    const key = `${prefix}${name}`;
    const required = node.required?.includes(name) && child.default === undefined ? needed : '';
    const mappings = (child.anyOf ?? []).filter((alternative) => alternative.properties);
    const line = `| \`${key}\` | ${typeOf(child)} | ${required} | ${defaultOf(child)} | ${child.description ?? ''} |`;
    const inner = Array.isArray(child.items) ? undefined : child.items;
    const value = Object.values(child.patternProperties ?? {})[0];
    return [
      line,
      ...rows(child, `${key}.`),
      ...mappings.flatMap((m) => rows(m, `${key}.`, mappings.length > 1 ? 'one of them' : 'yes')),
      ...(inner ? rows(inner, `${key}[].`) : []),
      ...(value ? rows(value, `${key}.*.`) : []),
    ];
  });
}

/** The type of a value in words. */
export function typeOf(node: Node): string {
  if (node.enum) return node.enum.map((v) => `\`${v}\``).join(', ');
  if (node.const !== undefined) return `\`${node.const}\``;
  if (node.anyOf) return [...new Set(node.anyOf.map(typeOf))].join(' or ');
  if (node.patternProperties) return `mapping to ${typeOf(Object.values(node.patternProperties)[0]!)}`;
  if (node.type === 'array') {
    if (Array.isArray(node.items)) return `[${node.items.map(typeOf).join(', ')}]`;
    return node.items ? `list of ${typeOf(node.items)}` : 'list';
  }
  if (node.type === 'object') return 'mapping';
  return `${node.type ?? 'any'}${boundsOf(node)}`;
}

function boundsOf({ minimum, maximum, exclusiveMinimum }: Node): string {
  if (exclusiveMinimum !== undefined) return ` above ${exclusiveMinimum}`;
  if (minimum === undefined) return '';
  return maximum === undefined ? ` from ${minimum}` : ` from ${minimum} to ${maximum}`;
}

function defaultOf(node: Node): string {
  if (node.default === undefined || node.type === 'object') return '';
  return `\`${JSON.stringify(node.default)}\``;
}
