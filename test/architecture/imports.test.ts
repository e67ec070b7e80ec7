// Who may import whom, as a table: the folders are the data flow, and arrows only point back along it.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const SRC = path.resolve('src');

/** Folder → folders it may import besides itself. */
const MAY_IMPORT: Record<string, string[]> = {
  core: [],
  config: ['core'],
  source: ['core'],
  onnx: ['core'],
  model: ['core', 'config', 'onnx'],
  decode: ['core', 'config', 'model'],
  trees: ['core', 'onnx'],
  score: ['core', 'onnx', 'model', 'trees'],
  explain: ['core', 'onnx', 'model', 'trees', 'score'],
  format: ['core', 'model', 'score', 'explain'],
  sink: ['core'],
  kafka: ['core'],
  avro: ['core'],
  run: [
    'core',
    'avro',
    'config',
    'source',
    'decode',
    'model',
    'explain',
    'format',
    'sink',
    'monitor',
    'pipeline',
    'kafka',
  ],
  monitor: ['core'],
  demo: ['core'],
  bundled: [],
  registry: ['core', 'config', 'model'],
  register: ['core', 'config', 'onnx', 'model', 'score', 'explain', 'registry'],
  pipeline: [
    'core',
    'config',
    'source',
    'decode',
    'model',
    'registry',
    'score',
    'explain',
    'format',
    'sink',
    'monitor',
  ],
  http: [
    'core',
    'explain',
    'config',
    'source',
    'model',
    'registry',
    'register',
    'decode',
    'format',
    'sink',
    'monitor',
    'pipeline',
  ],
  commands: [
    'score',
    'core',
    'kafka',
    'run',
    'registry',
    'explain',
    'config',
    'http',
    'register',
    'source',
    'decode',
    'model',
    'format',
    'sink',
    'monitor',
    'pipeline',
    'demo',
  ],
};

/** Third-party package → the folders that may import it. */
const PACKAGES: Record<string, string[]> = {
  'onnxruntime-node': ['score'],
  aws4fetch: ['registry'],
  'csv-parse': ['decode', 'register'],
  commander: ['commands', '.'],
  yaml: ['config', 'http'],
  typebox: ['config', 'model', 'registry', 'run', 'http'],
  fastify: ['http'],
  '@fastify/multipart': ['http'],
  selfsigned: ['http'],
  avsc: ['avro'],
  hyparquet: ['source'],
  'hyparquet-compressors': ['source'],
  'hyparquet-writer': ['run'],
  kafkajs: ['kafka'],
  snappy: ['kafka'],
  'lz4-napi': ['kafka'],
  'prom-client': ['monitor'],
};

interface Edge {
  from: string;
  to: string;
  file: string;
}

function edges(): { internal: Edge[]; external: Edge[] } {
  const internal: Edge[] = [];
  const external: Edge[] = [];
  for (const file of readdirSync(SRC, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    const from = file.includes(path.sep) ? file.split(path.sep)[0]! : '.';
    const text = readFileSync(path.join(SRC, file), 'utf8');
    // Statements at the beginning of a line, and import(): not the word "from" in a text.
    for (const m of text.matchAll(
      /^(?:import|export)\b[^;']*?from '([^']+)'|^import '([^']+)'|\bimport\(\s*'([^']+)'/gm,
    )) {
      const target = (m[1] ?? m[2] ?? m[3])!;
      if (target.startsWith('.')) {
        const to = path.relative(SRC, path.resolve(SRC, path.dirname(file), target)).split(path.sep)[0]!;
        internal.push({ from, to, file });
      } else if (!target.startsWith('node:')) {
        const name = target.split('/', target.startsWith('@') ? 2 : 1).join('/');
        external.push({ from, to: name, file });
      }
    }
  }
  return { internal, external };
}

test('folders import only along the data flow', () => {
  const { internal } = edges();
  expect(internal.length).toBeGreaterThan(80);
  const wrong = internal.filter((e) => e.from !== '.' && e.to !== e.from && !MAY_IMPORT[e.from]?.includes(e.to));
  expect(wrong.map((e) => `${e.file} imports ${e.to}`)).toEqual([]);
});

test('every folder is in the table, and the table names no folder that is gone', () => {
  const folders = readdirSync(SRC, { withFileTypes: true }).filter((e) => e.isDirectory());
  expect(folders.map((f) => f.name).sort()).toEqual(Object.keys(MAY_IMPORT).sort());
});

test('each third-party package is imported in its own folder only', () => {
  const { external } = edges();
  expect(external.length).toBeGreaterThan(8);
  const wrong = external.filter((e) => !PACKAGES[e.to]?.includes(e.from));
  expect(wrong.map((e) => `${e.file} imports ${e.to}`)).toEqual([]);
});
