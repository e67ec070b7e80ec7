// Writes JSON Schemas for the completion of editors. Nothing that has a default is required in a file.

/** The schema as text. */
export function editorSchema(title: string, schema: object): string {
  const document = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title,
    ...(withoutNeeds(schema) as object),
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

function withoutNeeds(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(withoutNeeds);
  if (typeof node !== 'object' || node === null) return node;
  const { required, ...rest } = node as { required?: unknown; properties?: Record<string, object> };
  const open = Object.fromEntries(Object.entries(rest).map(([key, child]) => [key, withoutNeeds(child)]));
  if (!Array.isArray(required)) return required === undefined ? open : { ...open, required: withoutNeeds(required) };
  const needed = (required as string[]).filter((key) => !('default' in (rest.properties?.[key] ?? {})));
  return needed.length > 0 ? { required: needed, ...open } : open;
}
