// The pages say what the code says: generated ones are compared, links lead somewhere, versions agree.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Code } from 'typebox/compile';
import { expect, test } from 'vitest';
import { ERRORS } from '../../src/core/errors.ts';
import { VERSION } from '../../src/core/version.ts';
import { openApi } from '../../src/doors/http/openapi/openapi.ts';
import { ManifestSchema } from '../../src/model/package/manifest.ts';
import { Metrics } from '../../src/monitor/metrics.ts';
import { errorsPage } from '../../tools/docs/errors-page.ts';
import { manifestPage } from '../../tools/docs/manifest-page.ts';
import { metricsPage } from '../../tools/docs/metrics-page.ts';
import { pipelinePage } from '../../tools/docs/pipeline-page.ts';
import { serverConfigJsonSchema, serverConfigPage } from '../../tools/docs/server-page.ts';

const GENERATED: [string, () => string | Promise<string>][] = [
  ['src/model/package/manifest-check.ts', manifestCheck],
  ['docs/errors.md', errorsPage],
  ['docs/model-package.md', manifestPage],
  ['docs/pipelines.md', pipelinePage],
  ['docs/metrics.md', metricsPage],
  ['docs/serve-config.md', serverConfigPage],
  ['docs/serve.schema.json', serverConfigJsonSchema],
  ['docs/openapi.json', () => `${JSON.stringify(openApi(), null, 2)}\n`],
];

/** The check of model.yaml as code that needs no typebox, written by typebox itself. */
function manifestCheck(): string {
  const { Code: code, External } = Code(ManifestSchema);
  const patterns = External.variables.map(String).join(',\n  ');
  const body = code
    .replaceAll(/^\/\/ @ts-ignore\n/gm, '')
    .replace(/^import \{ Hashing \}.*\n/m, '')
    .replace(/^let External = \[\]$/m, `const External = [\n  ${patterns},\n];`)
    .replace(/^export function SetExternal.*\n+/m, '')
    .replace('export function Check(value)', 'export function isManifest(value: unknown): value is Manifest');
  if (/Hashing\.|CheckContext/.test(body)) throw new Error('the check needs more of typebox');
  return [
    '// Written by `npm run docs` from the schema in manifest.ts.',
    '// @ts-nocheck: typebox writes JavaScript.',
    "import type { Manifest } from './manifest.ts';",
    body,
  ].join('\n');
}

// `npm run docs` writes the pages; everything else compares them.
test.each(GENERATED)('%s is up to date', async (file, page) => {
  if (process.env.SLUICE_WRITE_DOCS) writeFileSync(file, await page());
  expect(readFileSync(file, 'utf8')).toBe(await page());
});

/** Every file of src/ but one, without its comments. */
function sourceWithout(home: string): string {
  return readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((f) => f.endsWith('.ts') && f !== path.normalize(home))
    .map((f) => readFileSync(path.join('src', f), 'utf8'))
    .join('\n')
    .replaceAll(/\/\*[\s\S]*?\*\/|(^|\s)\/\/.*$/gm, '$1');
}

test('every code of the catalogue is used by its whole name', () => {
  const literals = new Set([...sourceWithout('core/errors.ts').matchAll(/'([a-z0-9_]+)'/g)].map((m) => m[1]!));
  const codes = Object.keys(ERRORS);
  expect(codes.length).toBeGreaterThan(30);
  expect(codes.filter((code) => !literals.has(code))).toEqual([]);
});

test('every metric of the table is counted, set or observed somewhere', () => {
  const touched = new Set([...sourceWithout('monitor/metrics.ts').matchAll(/metrics[!?]?\.(\w+)/gi)].map((m) => m[1]!));
  const fields = Object.entries(new Metrics()).filter(([, field]) => 'labels' in Object(field));
  expect(fields.length).toBeGreaterThan(20);
  expect(fields.map(([name]) => name).filter((name) => !touched.has(name))).toEqual([]);
});

test('links in the pages lead to files', () => {
  const pages = [
    'README.md',
    'ARCHITECTURE.md',
    'CHANGELOG.md',
    'CONTRIBUTING.md',
    ...readdirSync('docs', { recursive: true, encoding: 'utf8' })
      .filter((f) => f.endsWith('.md'))
      .map((f) => path.join('docs', f)),
  ];
  const broken: string[] = [];
  for (const page of pages) {
    for (const m of readFileSync(page, 'utf8').matchAll(/\]\(([^)#]+)[^)]*\)/g)) {
      if (/^https?:/.test(m[1]!)) continue;
      if (!existsSync(path.join(path.dirname(page), m[1]!))) broken.push(`${page}: ${m[1]}`);
    }
  }
  expect(broken).toEqual([]);
});

test('the version is that of package.json', () => {
  expect(JSON.parse(readFileSync('package.json', 'utf8')).version).toBe(VERSION);
});
