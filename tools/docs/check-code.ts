// Writes checks of values as code that needs little of typebox, so that a value that is in order is read without loading it.
import type { TSchema } from 'typebox';
import { Code } from 'typebox/compile';
import { defaultsOf, withoutDefaults } from '../../src/config/schema-defaults.ts';
import { endSchemas } from '../../src/connectors/connectors.ts';
import { ManifestSchema } from '../../src/model/package/manifest.ts';
import { pipelineSchema, typeOnly } from '../../src/pipeline/pipeline-schema.ts';

const { sources: SOURCES, sinks: SINKS, deadLetters: DEAD_LETTERS } = await endSchemas();

/** The body of typebox's check, and the patterns it refers to. */
function checkBody(schema: TSchema): string {
  const { Code: code, External } = Code(schema);
  const patterns = External.variables.map(String).join(',\n  ');
  const body = code
    .replaceAll(/^\/\/ @ts-ignore\n/gm, '')
    .replace(/^import \{ Hashing \}.*\n/m, '')
    .replace(/^let External = \[\]$/m, `const External = [\n  ${patterns},\n];`)
    .replace(/^export function SetExternal.*\n+/m, '');
  if (/Hashing\.|CheckContext/.test(body)) throw new Error('the check needs more of typebox');
  return body;
}

/** src/model/package/manifest-check.ts */
export function manifestCheck(): string {
  return [
    '// Written by `npm run docs` from the schema in manifest.ts.',
    '// @ts-nocheck: typebox writes JavaScript.',
    "import type { Manifest } from './manifest.ts';",
    checkBody(ManifestSchema).replace(
      'export function Check(value)',
      'export function isManifest(value: unknown): value is Manifest',
    ),
  ].join('\n');
}

/** The check as an expression. */
function checkExpression(schema: TSchema): string {
  const lines = checkBody(withoutDefaults(schema))
    .replace(/^import \{ Guard \}.*\n/m, '')
    .replace(/const External = \[\s*,\s*\];/, '')
    .replace(/^export function Check\(value\)/m, 'return (value) =>')
    .split('\n')
    .filter((l) => l.trim() !== '');
  return `(() => {\n${lines.map((l) => `    ${l}`).join('\n')}\n  })()`;
}

const ENDS = { source: SOURCES, sink: SINKS, dead_letter: DEAD_LETTERS };
const COMMON = () => pipelineSchema(typeOnly(SOURCES), typeOnly(SINKS), typeOnly(DEAD_LETTERS));
const ENDS_TYPE = "type Ends<T> = Record<'source' | 'sink' | 'dead_letter', Record<string, T>>;";

/** Members of a record over the common part and each end by its type. */
function overEnds(of: (schema: TSchema) => string): string[] {
  const each = (schemas: Readonly<Record<string, TSchema>>) =>
    Object.entries(schemas).map(([type, schema]) => `    ${type}: ${of(schema)},`);
  return [
    `  common: ${of(COMMON())},`,
    ...Object.entries(ENDS).flatMap(([end, schemas]) => [`  ${end}: {`, ...each(schemas), '  },']),
  ];
}

/** src/config/pipeline-check.ts */
export function pipelineCheck(): string {
  return [
    '// Written by `npm run docs` from the schema in pipeline-schema.ts: the common part, then each end by its type.',
    '// @ts-nocheck: typebox writes JavaScript.',
    "import { Guard } from 'typebox/guard';",
    '',
    ENDS_TYPE,
    '',
    'export const PIPELINE_CHECKS: { common: (value: unknown) => boolean } & Ends<(value: unknown) => boolean> = {',
    ...overEnds(checkExpression),
    '};',
    '',
  ].join('\n');
}

/** src/config/pipeline-defaults.ts */
export function pipelineDefaults(): string {
  const data = (schema: TSchema) => {
    const lines = defaultsOf(schema).map((entry) => `\n      ${JSON.stringify(entry)},`);
    return `[${lines.join('')}${lines.length > 0 ? '\n    ' : ''}]`;
  };
  return [
    '// Written by `npm run docs` from the schema in pipeline-schema.ts: apart from the checks, which flags do not need.',
    "import type { Defaults } from './schema-defaults.ts';",
    '',
    ENDS_TYPE,
    '',
    'export const PIPELINE_DEFAULTS: { common: Defaults } & Ends<Defaults> = {',
    ...overEnds(data),
    '};',
    '',
  ].join('\n');
}
