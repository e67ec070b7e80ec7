// Writes docs/model-package.md from the schema of model.yaml; a test compares the page with it.
import type { TSchema } from 'typebox';
import { ManifestSchema } from './manifest.ts';

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
};

/** The page as Markdown. */
export function manifestPage(): string {
  return `# Model packages
Generated from the schema in \`src/model/manifest.ts\` by \`npm run docs\`.

A registry is a folder: \`DIR/<id>/<version>/\` is one package, \`DIR/<id>/aliases.yaml\` maps aliases to versions
(\`champion: 3\`). A reference is \`id\`, \`id:version\` or \`id@alias\`; bare \`id\` means alias \`champion\`, else the newest version.
A package is \`model.yaml\` beside \`model.onnx\`, whose sha256 is checked whenever it is loaded.

## What a value means
The same rules hold at every door; native JSON types and strings give the same prediction.

- **missing**: the texts in \`missing.values\` (default: the empty text) and JSON \`null\`. The model gets NaN (\`as: nan\`),
  \`missing.value\` (\`as: value\`, \`as: category\`), or the row is refused (\`as: error\`).
- **number**: plain decimal notation. Spaces, thousands separators, hexadecimal, \`NaN\` and \`Infinity\` are refused rather
  than guessed, and so is what rounds to infinity in the number type of its input, or lies outside \`range\`.
- **boolean**: the texts of \`true_values\` (default true, True, TRUE, 1) and \`false_values\` (false, False, FALSE, 0).
- **category**: exact and case-sensitive, leading zeros kept. \`codes\` gives the number each is trained with, \`values\` lists
  them where the model takes the text itself. What is in neither is \`unseen\`: refused (\`error\`, the default), as missing
  (\`missing\`), or \`unseen_value\` (\`value\`). With neither list the text goes to the model as it is.
- **text**: as it is; a NUL character is refused.

## Keys of model.yaml
| key | type | required | |
| --- | --- | --- | --- |
${rows(ManifestSchema as unknown as Node, '').join('\n')}
`;
}

function rows(node: Node, prefix: string): string[] {
  return Object.entries(node.properties ?? {}).flatMap(([name, child]) => {
    const key = `${prefix}${name}`;
    const required = node.required?.includes(name) ? 'yes' : '';
    const line = `| \`${key}\` | ${typeOf(child)} | ${required} | ${child.description ?? ''} |`;
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
