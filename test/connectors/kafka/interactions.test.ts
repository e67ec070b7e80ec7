// Pairs of columns of records: topics, files and tables tell those of the kernel, and a pipeline whose model tells none does not start.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { kernelPairs, type Pair, pairsOf, pairsOfCells } from '../../support/interactions.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { eachRecord, produce } from '../../support/kafka/topics.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../../support/postgres/server.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import { asObjects } from '../../support/service.ts';

const MOST = 3;
const ROWS = 40;
const csv = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 33, oddness: 'none' })]).toString();
const objects = asObjects(csv);
const SCORE = `score: { interpretation: effects, interactions: ${MOST}, passthrough: [id], workers: 1 }\n`;

requirePostgres('pairs of columns', () => {
  requireKafka('of records', () => {
    let cluster: KafkaCluster;
    let server: PostgresServer;
    let want: Map<string, Pair[]>;
    beforeAll(async () => {
      [cluster, server] = await Promise.all([KafkaCluster.shared(), startPostgres()]);
      const kernel = await kernelPairs(CREDIT_DEFAULT, objects);
      want = new Map(kernel.map((pairs, i) => [`k${i}`, pairs!.slice(0, MOST)]));
      await cluster.createTopic('in', 2);
      await produce(
        cluster,
        'in',
        objects.map((row, i) => ({
          key: `k${i}`,
          value: JSON.stringify({ id: `k${i}`, ...row }),
          partition: i % 2,
        })),
      );
    });
    afterAll(async () => {
      await Promise.all([cluster?.stop(), server?.stop()]);
    });

    const run = async (folder: string, id: string, ends: string, model = 'credit-default', more: string[] = []) => {
      const broker = `kafka: { brokers: ["${cluster.brokers[0]}"], session_timeout_ms: 3000 }\n`;
      writeFileSync(path.join(folder, `${id}.yaml`), `model: ${model}\n${ends}${SCORE}${broker}`);
      return sluiceHere(['run', `${id}.yaml`, '--json', ...more], { cwd: folder, env: { DB: server.url } });
    };
    const topic = (id: string) => `source: { type: kafka, topic: in, group: ${id}, until_caught_up: true }\n`;
    const told = (rows: readonly { id: string }[], of: (row: never) => Pair[] | null) =>
      new Map(rows.map((row) => [row.id, of(row as never)] as const).sort(([a], [b]) => Number(a.slice(1)) - Number(b.slice(1)))); // biome-ignore format: one line

    test('a topic, files and a table behind a topic', async () => {
      const folder = scratch();
      mkdirSync(path.join(folder, 'out'));
      await cluster.createTopic('out', 2);
      const sinks = [
        ['topics', 'sink: { type: kafka, topic: out }\n'],
        ['files', 'sink: { type: file, path: "out/{partition}-{offset}.ndjson" }\n'],
        ['tables', 'sink: { type: postgres, url_env: DB, table: told }\n'],
      ] as const;
      for (const [id, sink] of sinks) {
        const { code, stderr } = await run(folder, id, `${topic(id)}${sink}`);
        expect([id, code], stderr).toEqual([id, 0]);
      }
      const records: { id: string }[] = [];
      await eachRecord(cluster, 'out', ({ value }) => void records.push(JSON.parse(value!.toString())));
      expect(told(records, pairsOf)).toEqual(want);
      const lines = readdirSync(path.join(folder, 'out')).flatMap((f) => readFileSync(path.join(folder, 'out', f), 'utf8').trimEnd().split('\n')); // biome-ignore format: one line
      expect(told(lines.map((line) => JSON.parse(line)), pairsOf)).toEqual(want); // biome-ignore format: one line
      expect(told((await server.query('SELECT * FROM told')).rows, pairsOfCells)).toEqual(want);
    });

    test('a table behind a file', async () => {
      const folder = scratch();
      const [header, ...lines] = csv.trimEnd().split('\n');
      writeFileSync(path.join(folder, 'in.csv'), `${[`id,${header}`, ...lines.map((line, i) => `k${i},${line}`)].join('\n')}\n`); // biome-ignore format: one line
      const ends = 'source: { type: file, path: in.csv }\nsink: { type: postgres, url_env: DB, table: told_of_file }\n';
      const { code, stderr } = await run(folder, 'file', ends);
      expect(code, stderr).toBe(0);
      expect(told((await server.query('SELECT * FROM told_of_file')).rows, pairsOfCells)).toEqual(want);
    });

    test('a model that tells none: the pipeline does not start', async () => {
      const folder = scratch();
      const registry = path.join(scratch(), 'models');
      copyUnlocked('test/fixtures/packages/credit-columns', path.join(registry, 'credit-columns'));
      const yaml = path.join(registry, 'credit-columns/1/model.yaml');
      writeFileSync(yaml, readFileSync(yaml, 'utf8').replace('{ background: background.csv }', '{ background: background.csv, method: linear }')); // biome-ignore format: one line
      const ends = `${topic('none')}sink: { type: kafka, topic: out }\n`;
      const { code, stderr } = await run(folder, 'none', ends, 'credit-columns', ['--registry', registry]);
      expect([code, stderr]).toEqual([1, expect.stringMatching(/has no interactions.*\[interpretation_unavailable\]/)]);
    });
  });
});
