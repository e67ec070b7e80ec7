// The registry of connectors: what each line has to have, and what a new one touches. The exercise is a connector of tables in memory.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Type } from 'typebox';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { literal, text } from '../../src/config/options/describe-option.ts';
import { CONNECTORS, endSchemas } from '../../src/connectors/connectors.ts';
import type { Connector, End } from '../../src/connectors/contract/connector.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scratch, sluiceHere } from '../support/cli.ts';

const TABLES = new Map<string, Buffer>();

interface MemoryEnd extends End {
  table: string;
}

const end = Type.Object({ type: literal('memory'), table: text('name of the table') }, { additionalProperties: false });

const MEMORY = {
  page: 'pipelines.md',
  capabilities: { reads: 'rows', writes: 'rows', takes: ['bytes', 'rows'], transact: false, withhold: true },
  options: { source: end, sink: end },
  lint: async ({ source, sink }, say) => {
    const [from, to] = [source as MemoryEnd, sink as MemoryEnd];
    if (from.type === 'memory' && to.type === 'memory' && from.table === to.table) {
      say('sink.table', 'sink.table: is the source itself');
    }
  },
  nameOf: ({ table }: MemoryEnd) => `memory:${table}`,
  openRows: async ({ table }: MemoryEnd) => {
    const bytes = TABLES.get(table)!;
    async function* chunks() {
      yield bytes;
    }
    return {
      chunks: chunks(),
      input: { format: 'delimited', delimiter: ',' },
      bytesRead: () => bytes.length,
      close: async () => {},
    };
  },
  openSink: async ({ table }: MemoryEnd) => {
    const chunks: Buffer[] = [];
    return {
      output: { format: 'csv', delimiter: ',' },
      revocable: true,
      get bytesWritten() {
        return chunks.reduce((sum, { length }) => sum + length, 0);
      },
      write: async (bytes: Uint8Array) => {
        chunks.push(Buffer.from(bytes));
      },
      commit: async () => {
        TABLES.set(table, Buffer.concat(chunks));
      },
      abort: async () => {},
    };
  },
} satisfies Connector;

const registry: Record<string, Connector> = CONNECTORS;
beforeAll(() => {
  registry.memory = MEMORY;
});
afterAll(() => {
  delete registry.memory;
});

test('a connector that is registered is checked, scored from and written to, without other changes', async () => {
  const folder = scratch();
  const portfolio = Buffer.concat([...generatePortfolio({ rows: 300, seed: 5, oddness: 'none', ids: true })]);
  TABLES.set('applications', portfolio);
  const csv = path.join(folder, 'in.csv');
  writeFileSync(csv, portfolio);
  const pipeline = (name: string, source: string, sink: string): string => {
    const file = path.join(folder, `${name}.yaml`);
    const score = 'score: { passthrough: [application_id] }\nmanifest: false\n';
    writeFileSync(file, `model: credit-default\nsource: ${source}\n${score}sink: ${sink}\n`);
    return file;
  };
  const same = pipeline('same', '{ type: memory, table: a }', '{ type: memory, table: a }');
  expect((await sluiceHere(['lint', same])).stderr).toContain(`${same}:5:30 sink.table: is the source itself`);
  const unknown = pipeline('unknown', '{ type: memory, tabel: a }', '{ type: memory, table: b }');
  expect((await sluiceHere(['lint', unknown])).stderr).toContain('unknown key tabel (did you mean table?)');
  const topic = pipeline('topic', '{ type: kafka, topic: a, group: g }', '{ type: memory, table: b }');
  expect((await sluiceHere(['lint', topic])).stderr).toContain('the sink of a topic must be a topic, a table or files');

  const into = pipeline('into', '{ type: memory, table: applications }', '{ type: memory, table: scored }');
  const run = await sluiceHere(['run', into, '--json']);
  expect(run.code, run.stderr).toBe(0);
  expect(JSON.parse(run.stdout)).toMatchObject({
    input: 'memory:applications',
    output: 'memory:scored',
    rows: 300,
    scored: 300,
  });
  const files = pipeline(
    'files',
    `{ type: file, path: ${csv} }`,
    `{ type: file, path: ${path.join(folder, 'out.csv')} }`,
  );
  expect((await sluiceHere(['run', files])).code).toBe(0);
  expect(TABLES.get('scored')!.equals(readFileSync(path.join(folder, 'out.csv')))).toBe(true);
});

/** The methods that a capability needs. */
const NEEDS = {
  reads: { bytes: ['inputs', 'formatOf', 'isPattern'], rows: ['openRows'], records: [], requests: ['formatOf'] },
  writes: { bytes: ['output', 'formatOf'], rows: ['openSink'], records: ['openSink'] },
} as const;

test.each(Object.entries<Connector>(CONNECTORS))(
  '%s has the methods and schemas of its capabilities',
  async (_, one) => {
    const { reads, writes, takes } = one.capabilities;
    const needed = [...(reads ? NEEDS.reads[reads] : []), ...(writes ? NEEDS.writes[writes] : [])];
    expect(needed.filter((method) => !one[method])).toEqual([]);
    expect(takes.length > 0).toBe(writes !== null);
    expect(existsSync(path.join('docs', one.page))).toBe(true);
    const schemas = one.options;
    expect([schemas.source !== undefined, schemas.sink !== undefined]).toEqual([reads !== null, writes !== null]);
  },
);

test('each end has the name of its connector as its type', async () => {
  const schemas = endSchemas();
  for (const ends of Object.values(schemas)) {
    for (const [type, { properties }] of Object.entries<{ properties: { type: { enum: string[] } } }>(ends as never)) {
      expect(properties.type.enum).toEqual([type]);
    }
  }
});

/** Files that are about Kafka or about one kind of pipeline, and may compare the types of its ends. */
const ABOUT_TOPICS = /^(?:runs\/topics\/|doors\/commands\/(?:run|dlq|outcome-sources)\.ts)/;

test('code outside of connectors decides by capabilities, not by names', () => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
    .map((name) => name.replaceAll(path.sep, '/'))
    .filter((name) => name.endsWith('.ts') && !name.startsWith('connectors/'));
  const naming = (names: string) =>
    files.filter((name) => new RegExp(`[!=]== '(?:${names})'`).test(readFileSync(path.join('src', name), 'utf8')));
  expect(files.length).toBeGreaterThan(300);
  expect(naming('postgres').filter((name) => !ABOUT_TOPICS.test(name))).toEqual(['runs/checks/replay-table-row.ts']);
  expect(naming('kafka').filter((name) => !ABOUT_TOPICS.test(name))).toEqual([]);
});

const TOPIC = 'kafka: { brokers: ["b:9092"] }';
test.each([
  {
    what: 'a key that is not passed through',
    text: `source: { type: file, path: a.csv }\nscore: { passthrough: [id] }\nsink: { type: kafka, topic: t, key: number }\n${TOPIC}`,
    says: 'key: number is not in score.passthrough',
  },
  {
    what: 'a route of a decision that the model does not make',
    text: `source: { type: kafka, topic: s, group: g }\nsink: { type: kafka, topic: t, routes: [{ decision: declined, topic: d }] }\n${TOPIC}`,
    says: 'sink.routes: declined is no decision of the model, which makes the decisions approve, review, decline',
  },
  {
    what: 'a limit of a column that is not measured for it',
    text: 'source: { type: file, path: a.csv }\ngate: { max_unseen: { amount: 0.1 } }\nsink: { type: file, path: b.csv }',
    says: 'gate.max_unseen: amount is not measured for it',
  },
])('lint refuses $what', async ({ text, says }) => {
  const file = path.join(scratch(), 'p.yaml');
  writeFileSync(file, `model: credit-default\n${text}\n`);
  const { code, stderr } = await sluiceHere(['lint', file]);
  expect(code).toBe(2);
  expect(stderr).toContain(says);
});
