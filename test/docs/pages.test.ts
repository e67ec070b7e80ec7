// The pages say what the code says: generated ones are compared, links lead somewhere, versions agree.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ERRORS } from '../../src/core/errors.ts';
import { LOG_EVENTS } from '../../src/core/log.ts';
import { VERSION } from '../../src/core/version.ts';
import { PREDICT_QUERY } from '../../src/doors/http/wire/scoring-request.ts';
import { Metrics } from '../../src/monitor/metrics.ts';
import { alertmanagerFile, prometheusRule, rulesFile } from '../../tools/alerts/rules-file.ts';
import { DASHBOARDS, dashboardJson } from '../../tools/dashboards/dashboard.ts';
import { codeIndex } from '../../tools/docs/code-index.ts';
import { commandsPage, flagsOf } from '../../tools/docs/commands-page.ts';
import { anchor, errorsPage, troubleshootingEntries } from '../../tools/docs/errors-page.ts';
import { eventsTable } from '../../tools/docs/logs-page.ts';
import { manifestPage } from '../../tools/docs/manifest-page.ts';
import { withPart } from '../../tools/docs/marked-part.ts';
import { metricsPage } from '../../tools/docs/metrics-page.ts';
import { pipelineJsonSchema, pipelinePage } from '../../tools/docs/pipeline-page.ts';
import { readmePrediction } from '../../tools/docs/readme-prediction.ts';
import { schemaTable } from '../../tools/docs/schema-table.ts';
import { serverConfigJsonSchema, serverConfigPage } from '../../tools/docs/server-page.ts';
import { speedTable } from '../../tools/docs/speed-table.ts';
import { openApiDocument } from '../support/openapi-document.ts';

const GENERATED: [string, () => string | Promise<string>][] = [
  ['docs/code-index.md', codeIndex],
  ['docs/commands.md', commandsPage],
  ['README.md', () => withPart('README.md', 'prediction', readmePrediction())],
  ['README.md', () => withPart('README.md', 'speed', speedTable())],
  ['docs/score.md', () => withPart('docs/score.md', 'flags of score', flagsOf('score'))],
  ['docs/serve.md', () => withPart('docs/serve.md', 'query parameters', schemaTable(PREDICT_QUERY))],
  ['docs/errors.md', errorsPage],
  ['docs/logs.md', () => withPart('docs/logs.md', 'events', eventsTable())],
  ['docs/model-package.md', manifestPage],
  ['docs/pipelines.md', pipelinePage],
  ['docs/pipeline.schema.json', pipelineJsonSchema],
  ['docs/metrics.md', metricsPage],
  ['docs/serve-config.md', serverConfigPage],
  ['docs/serve.schema.json', serverConfigJsonSchema],
  ['docs/openapi.json', async () => `${JSON.stringify(await openApiDocument(), null, 2)}\n`],
  ['k8s/monitoring/rules.yaml', () => rulesFile()],
  ['k8s/monitoring/prometheus-rule.yaml', () => prometheusRule()],
  ['k8s/monitoring/alertmanager.yaml', () => alertmanagerFile()],
  ...DASHBOARDS.map((d): [string, () => string] => [`k8s/monitoring/dashboards/${d.uid}.json`, () => dashboardJson(d)]),
];

// `npm run docs` writes the pages; everything else compares them.
test.each(GENERATED)('%s is up to date', async (file, page) => {
  const text = await page();
  if (process.env.SLUICE_WRITE_DOCS) writeFileSync(file, text);
  expect(readFileSync(file, 'utf8')).toBe(text);
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
  const fields = Object.entries(new Metrics('serve')).filter(([, field]) => 'labels' in Object(field));
  expect(fields.length).toBeGreaterThan(20);
  expect(fields.map(([name]) => name).filter((name) => !touched.has(name))).toEqual([]);
});

test('every event of the log is written somewhere', () => {
  const literals = new Set([...sourceWithout('core/log.ts').matchAll(/'([a-z_]+)'/g)].map((m) => m[1]!));
  const events = Object.keys(LOG_EVENTS);
  expect(events.length).toBeGreaterThan(30);
  expect(events.filter((event) => !literals.has(event))).toEqual([]);
});

test('troubleshooting: 31 entries of symptom, cause and remedy; headings name codes that exist', () => {
  const page = readFileSync('docs/troubleshooting.md', 'utf8');
  const entries = page.split(/^### /m).slice(1);
  expect(entries).toHaveLength(31);
  for (const entry of entries) {
    const parts = [...entry.matchAll(/^- \*\*(Symptom|Cause|What to do):\*\* \S/gm)].map((m) => m[1]);
    expect(parts, entry.split('\n')[0]).toEqual(['Symptom', 'Cause', 'What to do']);
  }
  const codes = [...troubleshootingEntries().keys()];
  expect(codes.length).toBeGreaterThan(30);
  expect(codes.filter((code) => !(code in ERRORS))).toEqual([]);
  const anchors = new Set(troubleshootingEntries().values());
  const linked = [...readFileSync('docs/errors.md', 'utf8').matchAll(/troubleshooting\.md#([\w-]+)/g)].map(
    (m) => m[1]!,
  );
  expect(new Set(linked)).toEqual(anchors);
});

test.each(['docs/troubleshooting.md', 'docs/errors.md'])('links of %s lead to headings', (page) => {
  const links = [...readFileSync(page, 'utf8').matchAll(/\]\(([^)#:]*\.md)#([^)]+)\)/g)];
  expect(links.length).toBeGreaterThan(3);
  const broken = links.filter(([, file, wanted]) => {
    const text = readFileSync(path.join(path.dirname(page), file!), 'utf8');
    return !Array.from(text.matchAll(/^#+ (.*)$/gm), ([, heading]) => anchor(heading!)).includes(wanted!);
  });
  expect(broken.map(([link]) => link)).toEqual([]);
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

test('the tests that hold the threats of the threat model are there', () => {
  const named = [...readFileSync('docs/threat-model.md', 'utf8').matchAll(/`(test\/[\w./-]+)`/g)].map((m) => m[1]!);
  expect(named.length).toBeGreaterThan(40);
  expect(named.filter((file) => !existsSync(file))).toEqual([]);
});

test('the version is that of package.json', () => {
  expect(JSON.parse(readFileSync('package.json', 'utf8')).version).toBe(VERSION);
});

test('release notes of an unreleased version are marked as such', () => {
  const pages = readdirSync('docs/releases');
  expect(pages).toContain('0.3.0.md');
  const number = (version: string): number =>
    version.split('.').reduce((sum, part) => sum * 1000 + Number.parseInt(part, 10), 0);
  for (const page of pages) {
    const version = path.basename(page, '.md');
    const isReleased = number(version) <= number(VERSION);
    const [title] = readFileSync(path.join('docs/releases', page), 'utf8').split('\n');
    expect(title).toBe(`# Release notes ${version}${isReleased ? '' : ' (in preparation)'}`);
  }
});
