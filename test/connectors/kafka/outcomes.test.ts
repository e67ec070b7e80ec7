// Outcomes of topics: predictions that a pipeline wrote and labels of a topic, read without a group, against the same from files.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import type { OutcomeReport } from '../../../src/outcomes/outcome-report.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { produce } from '../../support/kafka/topics.ts';
import { asNative, asObjects } from '../../support/service.ts';

const ROWS = 600;
const MARCH = Date.parse('2026-03-31T23:00:00Z');
const APRIL = Date.parse('2026-04-01T01:00:00Z');

const pipeline = (broker: string) => `model: credit-default:1
source: { type: kafka, topic: in, group: outcomes, until_caught_up: true }
score: { workers: 1, passthrough: [customer] }
sink: { type: kafka, topic: out, timestamp: input, routes: [{ decision: approve, topic: approved }] }
on_invalid: report
kafka: { brokers: ["${broker}"] }
`;

requireKafka('outcomes', () => {
  test('of topics are those of files', async () => {
    // Its own: at the end the groups of the whole broker are listed.
    await using cluster = await KafkaCluster.start();
    const folder = scratch();
    for (const topic of ['in', 'out', 'approved', 'labels']) await cluster.createTopic(topic, 3);
    const text = Buffer.concat([
      ...generatePortfolio({ rows: ROWS, seed: 5, oddness: 'none', outcome: true }),
    ]).toString();
    const rows = asNative(asObjects(text));
    const key = (i: number) => `customer-${i}`;
    await produce(
      cluster,
      'in',
      rows.map(({ ok, ...application }, i) => ({
        key: key(i),
        value: JSON.stringify({ ...application, customer: 9_000_000 + i }),
        partition: i % 3,
        timestamp: String(i % 2 === 0 ? MARCH : APRIL),
      })),
    );
    // The first hundred are labelled wrongly at first, the last hundred never; one label is taken back.
    const label = (i: number, ok: unknown) => ({ key: key(i), value: ok === null ? null : JSON.stringify({ ok }), partition: i % 3 }); // biome-ignore format: one line
    await produce(cluster, 'labels', [
      ...rows.slice(0, 100).map((row, i) => label(i, !row.ok)),
      ...rows.slice(0, ROWS - 100).map((row, i) => label(i, row.ok)),
      label(7, null),
    ]);
    const file = path.join(folder, 'p.yaml');
    writeFileSync(file, pipeline(cluster.brokers[0]!));
    expect(await sluiceHere(['run', file], { cwd: folder })).toMatchObject({ code: 0 });
    const ask = async (...args: string[]): Promise<OutcomeReport> => {
      const run = await sluiceHere(['outcomes', ...args, '--json'], { cwd: folder });
      expect([run.code, run.stderr]).toEqual([0, expect.stringMatching(/^labels: /)]);
      return JSON.parse(run.stdout) as OutcomeReport;
    };
    const found = await ask('--pipeline', file, '--labels-topic', 'labels');
    expect(found.labels).toEqual({ rows: ROWS + 1, keys: 500, unknown: 1, matched: 499, repeated: 101 });
    expect(found.predictions).toMatchObject({ sources: 2, matched: 499, unlabelled: 101 });
    expect(found.groups.map((g) => [g.model, g.month])).toEqual([
      ['credit-default:1', '2026-03'],
      ['credit-default:1', '2026-04'],
    ]);

    const labels = rows.map((row, i) => `${9_000_000 + i},${i >= 500 || i === 7 ? '' : row.ok},${i % 2 === 0 ? '2026-03' : '2026-04'}`); // biome-ignore format: one line
    writeFileSync(path.join(folder, 'labels.csv'), `customer,ok,month\n${labels.join('\n')}\n`);
    const fromFile = await ask('--pipeline', file, '--labels', 'labels.csv', '--key', 'customer', '--month', 'month');
    expect([fromFile.groups, fromFile.totals]).toEqual([found.groups, found.totals]);

    writeFileSync(path.join(folder, 'applications.csv'), text.split('\n').map((line, i) => (line === '' ? '' : `${i === 0 ? 'customer' : 9_000_000 + i - 1},${line.slice(0, line.lastIndexOf(','))}`)).join('\n')); // biome-ignore format: one line
    await sluiceHere(['score', 'applications.csv', '-m', 'credit-default:1', '--passthrough', 'customer', '-o', 'scored.csv'], { cwd: folder }); // biome-ignore format: one line
    const scored = await ask('scored.csv', '--model', 'credit-default:1', '--labels', 'labels.csv', '--key', 'customer', '--month', 'month'); // biome-ignore format: one line
    expect([scored.groups, scored.totals]).toEqual([found.groups, found.totals]);
    expect((await (await cluster.admin()).listGroups()).groups.map((g) => g.groupId)).toEqual(['outcomes']);
  });
});
