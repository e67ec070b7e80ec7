// The same values in records of a topic: as columns of the model in every record format, and passed through from every format and file.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import YAML from 'yaml';
import { SluiceError } from '../../src/core/errors.ts';
import { driveRun } from '../../src/doors/commands/drive-run.ts';
import { readPipeline } from '../../src/runs/read-pipeline.ts';
import { KafkaCluster } from '../support/kafka/cluster.ts';
import { requireKafka } from '../support/kafka/require.ts';
import { eachRecord, produce } from '../support/kafka/topics.ts';
import { TIER } from '../support/tiers.ts';
import { CARRIERS, isTable } from './types/carriers.ts';
import { type Answer, Crossing, tokenOf } from './types/crossing.ts';
import { narrow, PASSING, PLAIN, registryOfKinds, WIDE } from './types/entry-points.ts';
import { ALL, ALWAYS, constantOf, type KindColumn } from './types/model.ts';
import { CELLS } from './types/texts.ts';
import { differenceIn, type GivenRecord, RECORD_FORMATS, type RecordFormat, recordsOf, Schemas } from './types/topic-values.ts'; // biome-ignore format: one line

requireKafka('types in topics', () => {
  const crossing = new Crossing();
  const kinds = registryOfKinds();
  const schemas = new Schemas();
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-types-topics-'));
  const given = new Map<RecordFormat, { topic: string; records: readonly GivenRecord[] }>();
  let cluster: KafkaCluster;
  let registry: string;
  let count = 0;
  beforeAll(async () => {
    [cluster, registry] = await Promise.all([KafkaCluster.shared(), schemas.start()]);
    for (const format of RECORD_FORMATS) {
      const topic = await cluster.createTopic(`types-${format.replace('_', '-')}`, 1);
      const records = recordsOf(format, schemas);
      await produce(cluster, topic, records.map(({ bytes }, i) => ({ key: `${i}`, value: bytes, partition: 0 }))); // biome-ignore format: one line
      given.set(format, { topic, records });
    }
  });
  afterAll(async () => {
    await cluster?.stop();
    schemas.stop();
    await crossing.close();
    kinds.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Runs a pipeline; its source and sink may be topics. */
  async function run(pipeline: object): Promise<void> {
    const file = path.join(folder, 'types.yaml');
    const shared = { kafka: { brokers: [cluster.brokers[0]], session_timeout_ms: 3000 }, schema_registry: { url: registry } }; // biome-ignore format: one line
    writeFileSync(file, YAML.stringify({ on_invalid: 'report', ...pipeline, ...shared }));
    try {
      await driveRun({ ...(await readPipeline(file)), resume: 'restart' }, { name: 'types', registry: kinds.folder, quiet: true }); // biome-ignore format: one line
    } catch (error) {
      throw error instanceof SluiceError ? new Error(`${error.code} ${error.message}`) : error;
    }
  }

  const sourceOf = (format: RecordFormat) => {
    count++;
    return { type: 'kafka', topic: given.get(format)!.topic, group: `types-${count}`, format, until_caught_up: true };
  };

  const outputTopic = (): Promise<string> => {
    count++;
    return cluster.createTopic(`types-out-${count}`, 1);
  };

  async function valuesIn(topic: string): Promise<Buffer[]> {
    const values: Buffer[] = [];
    await eachRecord(cluster, topic, ({ value }) => void values.push(value!));
    return values;
  }

  /** Every value of a format as this column, of a model that calls it `x` or of one that renames it. */
  async function scored(format: RecordFormat, spec: KindColumn, isWide: boolean): Promise<string[]> {
    const constants = Object.fromEntries(ALL.filter((c) => c !== spec).map((c) => [c.name, constantOf(c)]));
    const columns = isWide
      ? { rename: { [spec.name]: 'x', [ALWAYS]: 'row' }, constants, ignore: ['y'] }
      : { ignore: ['y'] };
    const topic = await outputTopic();
    await run({
      model: isWide ? WIDE : narrow(spec),
      source: { ...sourceOf(format), columns },
      score: { workers: 1, passthrough: [] },
      sink: { type: 'kafka', topic },
    });
    const answers = (await valuesIn(topic)).map((value) => JSON.parse(value.toString()) as Answer);
    const { records } = given.get(format)!;
    const name = `${format} as ${spec.name}${isWide ? ', renamed' : ''}`;
    return crossing.compare(answers, spec, PLAIN, { name, values: records.map(({ value }) => value) });
  }

  /** By the format, the columns that have all its values in the check. */
  const CHECKED: Record<RecordFormat, readonly string[]> = {
    json: ['code_marked'],
    json_schema: ['boolean_words'],
    avro: ['code_unseen'],
    protobuf: ['word'],
  };
  test.each(RECORD_FORMATS)('values of %s as columns of the model', async (format) => {
    const specs = TIER === 'campaigns' ? ALL : ALL.filter(({ name }) => CHECKED[format].includes(name));
    const found: string[] = [];
    for (const spec of specs) {
      for (const isWide of TIER === 'campaigns' ? [true, false] : [format !== 'json_schema' && format !== 'protobuf'])
        found.push(...(await scored(format, spec, isWide)));
    }
    expect(found).toEqual([]);
  });

  async function differences(topic: string, to: RecordFormat, label: string, tokens: readonly string[]) {
    const values = await valuesIn(topic);
    if (values.length !== tokens.length) return [`${label}: ${values.length} records instead of ${tokens.length}`];
    return values.flatMap((value, i) => {
      const difference = differenceIn(value, to, tokens[i]!, schemas);
      return difference === null ? [] : [`${label}, record ${i}: ${difference}`];
    });
  }

  const PAIRS = RECORD_FORMATS.flatMap((from) =>
    RECORD_FORMATS.flatMap((to) => [true, false].map((isNamed) => ({ from, to, isNamed }))),
  );
  const CHECKED_PAIRS: typeof PAIRS = [
    { from: 'json', to: 'avro', isNamed: true },
    { from: 'json', to: 'protobuf', isNamed: false },
    { from: 'avro', to: 'protobuf', isNamed: true },
    { from: 'protobuf', to: 'avro', isNamed: false },
    { from: 'json_schema', to: 'json', isNamed: false },
  ];
  test('values that are passed through from topics to topics', async () => {
    const found: string[] = [];
    // In a field of their own, or in the map of those that are not listed.
    for (const { from, to, isNamed } of TIER === 'campaigns' ? PAIRS : CHECKED_PAIRS) {
      const topic = await outputTopic();
      await run({
        model: PASSING,
        source: { ...sourceOf(from), columns: { ignore: ['y'] } },
        score: { workers: 1, ...(isNamed ? { passthrough: ['x'] } : {}) },
        sink: { type: 'kafka', topic, format: to },
      });
      const tokens = given.get(from)!.records.map(({ token }) => token);
      found.push(...(await differences(topic, to, `${from} to ${to}${isNamed ? ', named' : ''}`, tokens)));
    }
    expect(found).toEqual([]);
  });

  test('values that are passed through from topics to files', async () => {
    const found: string[] = [];
    for (const format of TIER === 'campaigns' ? RECORD_FORMATS : (['avro'] as const)) {
      const to = path.join(folder, format);
      await run({
        model: PASSING,
        source: { ...sourceOf(format), columns: { ignore: ['y'] } },
        score: { workers: 1, passthrough: ['x'] },
        sink: { type: 'file', path: path.join(to, '{partition}-{offset}.ndjson'), format: 'ndjson' },
      });
      const names = readdirSync(to).filter((name) => name.endsWith('.ndjson')).sort(); // biome-ignore format: one line
      const text = names.map((name) => readFileSync(path.join(to, name), 'utf8')).join('');
      const got = [...text.matchAll(/"x":(.*?),"(?:row|value|record)":/g)].map(([, token]) => token);
      expect(got.length).toBe(given.get(format)!.records.length);
      for (const [i, { token, carrier }] of given.get(format)!.records.entries())
        if (got[i] !== token) found.push(`${carrier}: ${got[i]} instead of ${token}`);
    }
    expect(found).toEqual([]);
  });

  test('values that are passed through from files to topics', async () => {
    const tables = CARRIERS.filter(isTable).filter(({ kind }) => kind !== 'nested');
    const chosen = TIER === 'campaigns' ? tables : tables.filter((_, i) => i % 149 === 0);
    const texts = CELLS.map(({ t }, row) => `${row},"${t.replaceAll('"', '""')}"\n`).join('');
    const { records } = given.get('json')!;
    const files = [
      ...chosen.map((t) => ({ name: t.name, format: t.format as string, bytes: Buffer.from(t.file, 'base64'), tokens: t.values.map((value) => tokenOf(value, t)) })),
      { name: 'cells', format: 'csv', bytes: Buffer.from(`row,x\n${texts}`), tokens: CELLS.map(({ t }) => JSON.stringify(t)) },
      { name: 'tokens', format: 'ndjson', bytes: Buffer.concat(records.flatMap(({ bytes }) => [bytes, Buffer.from('\n')])), tokens: records.map(({ token }) => token) },
    ]; // biome-ignore format: a table
    const found: string[] = [];
    for (const [i, { name, format, bytes, tokens }] of files.entries()) {
      const file = path.join(folder, `in.${format}`);
      writeFileSync(file, bytes);
      const to = RECORD_FORMATS[(i + 2) % RECORD_FORMATS.length]!;
      const topic = await outputTopic();
      await run({
        model: PASSING,
        source: { type: 'file', path: file, format },
        score: { workers: 1, passthrough: ['x'] },
        sink: { type: 'kafka', topic, format: to },
      });
      found.push(...(await differences(topic, to, `${name} to ${to}`, tokens)));
    }
    expect(found).toEqual([]);
  });
});
