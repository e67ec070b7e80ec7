// Who may import whom: the table of rooms in ARCHITECTURE.md, held against the imports of src/. Arrows only point down.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { cycle, graphOf } from '../support/import-graph.ts';

const SRC = path.resolve('src');

/** Room → rooms and districts it may import besides itself: the rows "`room/` | what | may import" of ARCHITECTURE.md. */
const MAY_IMPORT = new Map(
  [...readFileSync('ARCHITECTURE.md', 'utf8').matchAll(/^\| `([a-z/-]+)\/` *\|[^|]*\|([^|]*)\|$/gm)].map((m) => [
    m[1]!,
    [...m[2]!.matchAll(/[a-z][a-z/-]*/g)].map((n) => n[0]),
  ]),
);

/** Third-party package → the rooms that may import it. */
const PACKAGES: Record<string, string[]> = {
  'onnxruntime-node': ['inference/evaluate'],
  aws4fetch: ['storage'],
  'google-auth-library': ['storage'],
  '@aws-sdk/credential-provider-http': ['storage'],
  '@aws-sdk/credential-provider-web-identity': ['storage'],
  '@smithy/credential-provider-imds': ['storage'],
  '@smithy/node-http-handler': ['storage'],
  pg: ['connectors/postgres'],
  'pg-copy-streams': ['connectors/postgres'],
  'csv-parse': ['model/package', 'formats/delimited', 'onboarding'],
  commander: ['doors/commands', '.'],
  yaml: ['config', 'doors/http/access'],
  typebox: [
    'config',
    'connectors',
    'connectors/contract',
    'connectors/file',
    'connectors/kafka',
    'connectors/postgres',
    'connectors/stdio',
    'connectors/upload',
    'pipeline',
    'model/package',
    'model/registry',
    'runs',
    'doors/commands',
    'doors/http/access',
    'doors/http/wire',
  ],
  fastify: [
    'doors/http',
    'doors/http/access',
    'doors/http/openapi',
    'doors/http/wire',
    'doors/http/jobs',
    'doors/http/routes',
  ],
  '@fastify/multipart': ['doors/http', 'doors/http/wire'],
  '@fastify/swagger': ['doors/http/openapi'],
  selfsigned: ['doors/http/wire'],
  jose: ['doors/http/access'],
  avsc: ['formats'],
  protobufjs: ['formats'],
  '@uwdata/flechette': ['formats/arrow'],
  hyparquet: ['formats/parquet'],
  'hyparquet-compressors': ['formats/parquet'],
  'hyparquet-writer': ['formats/parquet'],
  kafkajs: ['connectors/kafka/kafkajs'],
  '@platformatic/kafka': ['connectors/kafka/platformatic'],
  snappy: ['connectors/kafka/client'],
  'lz4-napi': ['connectors/kafka/client'],
  'prom-client': ['monitor'],
  pino: ['monitor'],
  '@opentelemetry/api': ['monitor'],
  '@opentelemetry/sdk-trace': ['monitor'],
  '@opentelemetry/resources': ['monitor'],
  '@opentelemetry/exporter-trace-otlp-proto': ['monitor'],
};

interface Edge {
  from: string;
  to: string;
  file: string;
}

/** The room of a file or folder below src: the deepest row of the table that holds it; `.` for src itself. */
function roomOf(file: string): string {
  for (let at = path.dirname(file); at !== '.'; at = path.dirname(at)) if (MAY_IMPORT.has(at)) return at;
  return '.';
}

function edges(): { internal: (Edge & { target: string })[]; external: Edge[] } {
  const internal: (Edge & { target: string })[] = [];
  const external: Edge[] = [];
  for (const file of readdirSync(SRC, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    const from = roomOf(file);
    const text = readFileSync(path.join(SRC, file), 'utf8');
    // Statements at the beginning of a line, and import(): not the word "from" in a text.
    for (const m of text.matchAll(
      /^(?:import|export)\b[^;']*?from '([^']+)'|^import '([^']+)'|\bimport\(\s*'([^']+)'/gm,
    )) {
      const target = (m[1] ?? m[2] ?? m[3])!;
      if (target.startsWith('.')) {
        const to = path.relative(SRC, path.resolve(SRC, path.dirname(file), target));
        internal.push({ from, to: roomOf(to), file, target: to });
      } else if (!target.startsWith('node:')) {
        const name = target.split('/', target.startsWith('@') ? 2 : 1).join('/');
        external.push({ from, to: name, file });
      }
    }
  }
  return { internal, external };
}

test('rooms import only what the table says', () => {
  const { internal } = edges();
  expect(internal.length).toBeGreaterThan(600);
  const may = (from: string, to: string): boolean =>
    (MAY_IMPORT.get(from) ?? []).some((name) => to === name || to.startsWith(`${name}/`));
  const wrong = internal.filter((e) => e.from !== '.' && e.to !== e.from && !may(e.from, e.to));
  expect(wrong.map((e) => `${e.file} imports ${e.target}`)).toEqual([]);
});

test('there is no circle: not of rooms, not of districts, not of files', () => {
  const { internal } = edges();
  const district = (room: string) => room.split('/')[0]!;
  expect(cycle(graphOf(internal.map((e) => [e.from, e.to])))).toBe(null);
  expect(cycle(graphOf(internal.map((e) => [district(e.from), district(e.to)])))).toBe(null);
  expect(cycle(graphOf(internal.map((e) => [e.file, e.target])))).toBe(null);
});

test('every folder is a row of the table, and the table names no folder that is gone and nothing that is not needed', () => {
  const { internal } = edges();
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.ts'));
  expect(files.filter((f) => f.includes(path.sep) && roomOf(f) === '.')).toEqual([]);
  const used = new Set(files.map(roomOf));
  expect([...MAY_IMPORT.keys()].filter((room) => !used.has(room))).toEqual([]);
  const idle = [...MAY_IMPORT].flatMap(([room, names]) =>
    names
      .filter((n) => !internal.some((e) => e.from === room && (e.to === n || e.to.startsWith(`${n}/`))))
      .map((n) => `${room}: ${n}`),
  );
  expect(idle).toEqual([]);
});

test('each third-party package is imported in its own rooms only', () => {
  const { external } = edges();
  expect(external.length).toBeGreaterThan(8);
  const wrong = external.filter((e) => !PACKAGES[e.to]?.includes(e.from));
  expect(wrong.map((e) => `${e.file} imports ${e.to}`)).toEqual([]);
});

/** A file with more imports does too much, or is the one place that lists what it imports. */
const MOST_IMPORTS = 20;
const MAY_HAVE_MORE = new Map([
  ['cli.ts', 'the table of commands, each imported when it is called'],
  ['onboarding/register.ts', 'the steps of a registration, in their order'],
  ['runs/endpoints.ts', 'opens every kind of source and sink'],
]);

test('a file imports at most 20 others, but for those that list what they import', () => {
  const imported = new Map<string, Set<string>>();
  for (const { file, target } of edges().internal) imported.set(file, (imported.get(file) ?? new Set()).add(target));
  const many = [...imported].filter(([, targets]) => targets.size > MOST_IMPORTS).map(([file]) => file);
  expect(many.sort()).toEqual([...MAY_HAVE_MORE.keys()].sort());
});
