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
  required?: string[];
  default?: unknown;
};

/** One line a key, nested keys by their path. */
export function schemaTable(schema: TSchema): string {
  return [
    '| key | type | required | default | |',
    '| --- | --- | --- | --- | --- |',
    ...rows(schema as unknown as Node, ''),
  ].join('\n');
}

function rows(node: Node, prefix: string): string[] {
  return Object.entries(node.properties ?? {}).flatMap(([name, child]) => {
    const key = `${prefix}${name}`;
    const required = node.required?.includes(name) && child.default === undefined ? 'yes' : '';
    const line = `| \`${key}\` | ${typeOf(child)} | ${required} | ${defaultOf(child)} | ${child.description ?? ''} |`;
    const inner = Array.isArray(child.items) ? undefined : child.items;
    const value = Object.values(child.patternProperties ?? {})[0];
    return [
      line,
      ...rows(child, `${key}.`),
      ...(inner ? rows(inner, `${key}[].`) : []),
      ...(value ? rows(value, `${key}.*.`) : []),
    ];
  });
}

function typeOf(node: Node): string {
  if (node.enum) return node.enum.map((v) => `\`${v}\``).join(', ');
  if (node.const !== undefined) return `\`${node.const}\``;
  if (node.anyOf) return node.anyOf.map(typeOf).join(' or ');
  if (node.patternProperties) return `mapping to ${typeOf(Object.values(node.patternProperties)[0]!)}`;
  if (node.type === 'array') {
    if (Array.isArray(node.items)) return `[${node.items.map(typeOf).join(', ')}]`;
    return node.items ? `list of ${typeOf(node.items)}` : 'list';
  }
  return node.type === 'object' ? 'mapping' : (node.type ?? 'any');
}

function defaultOf(node: Node): string {
  if (node.default === undefined || node.type === 'object') return '';
  return `\`${JSON.stringify(node.default)}\``;
}
