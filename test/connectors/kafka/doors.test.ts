// The table of doors goes on where a broker is needed: topics in and out count what files and requests count, and lag is what is not
// committed, whatever the member does.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { answerTo } from '../../../src/connectors/kafka/client/records.ts';
import { TransactionalProcessor } from '../../../src/connectors/kafka/processor.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { eachRecord, produce } from '../../support/kafka/topics.ts';
import { COUNTS, countsOf, scoringOf, summaryCounts, type Thousand, thousand } from '../../support/thousand.ts';
import { until } from '../../support/until.ts';

requireKafka('every door counts alike', () => {
  let cluster: KafkaCluster;
  let data: Thousand;
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
    data = await thousand();
  });
  afterAll(() => cluster?.stop());

  const broker = () => `kafka: { brokers: ["${cluster.brokers[0]}"], session_timeout_ms: 3000 }\n`;
  const score = () => `score: { interpretation: effects, interpret_below: ${data.below}, workers: 1 }\n`;
  const run = async (folder: string, yaml: string) => {
    writeFileSync(path.join(folder, 'p.yaml'), `model: credit-default\n${yaml}${score()}${broker()}`);
    const done = await sluiceHere(['run', 'p.yaml', '--json', '--metrics-file', 'run.prom'], { cwd: folder });
    expect(done.code, done.stderr).toBe(3);
    return { summary: summaryCounts(done.stdout), metrics: readFileSync(path.join(folder, 'run.prom'), 'utf8') };
  };
  const errorsOf = async (topic: string): Promise<{ records: number; errors: number }> => {
    const found = { records: 0, errors: 0 };
    await eachRecord(cluster, topic, ({ value }) => {
      found.records++;
      if (JSON.parse(value!.toString()).error) found.errors++;
    });
    return found;
  };

  test.each([
    ['topic → topic, errors as predictions', 'report', 'topic'],
    ['topic → topic, errors as dead letters', 'dead_letter', 'topic'],
    ['topic → files, errors as predictions', 'report', 'files'],
    ['topic → files, errors as dead letters', 'dead_letter', 'files'],
  ])('%s', async (name, onInvalid, to) => {
    const folder = scratch();
    mkdirSync(path.join(folder, 'out'));
    const id = name.replaceAll(/[^a-z]/g, '');
    const [input, output, letters] = await Promise.all([
      cluster.createTopic(`${id}-in`, 2),
      cluster.createTopic(`${id}-out`, 2),
      cluster.createTopic(`${id}-dlq`, 1),
    ]);
    await produce(
      cluster,
      input,
      data.objects.map((o, i) => ({ key: `k${i}`, value: JSON.stringify(o), partition: i % 2 })),
    );
    const sink =
      to === 'topic' ? `{ type: kafka, topic: ${output} }` : '{ type: file, path: "out/{partition}-{offset}.ndjson" }';
    const dead = onInvalid === 'dead_letter' ? `dead_letter: { type: kafka, topic: ${letters} }\n` : '';
    const yaml = `source: { type: kafka, topic: ${input}, group: ${id}, until_caught_up: true }\nsink: ${sink}\non_invalid: ${onInvalid}\n${dead}`;
    const { summary, metrics } = await run(folder, yaml);
    expect(summary).toEqual(COUNTS);
    expect(countsOf(metrics)).toEqual(COUNTS);
    // Work in the workers, not the wait for a model that is still being loaded.
    const { blocks, seconds } = scoringOf(metrics);
    expect(blocks).toBeGreaterThan(0);
    expect(seconds).toBeGreaterThan(0);
    const errors = onInvalid === 'report' ? 100 : 0;
    if (to === 'topic') expect(await errorsOf(output)).toEqual({ records: 900 + errors, errors });
    else {
      const lines = readdirSync(path.join(folder, 'out')).flatMap((f) =>
        readFileSync(path.join(folder, 'out', f), 'utf8')
          .trimEnd()
          .split('\n'),
      );
      expect([lines.length, lines.filter((l) => JSON.parse(l).error).length]).toEqual([900 + errors, errors]);
    }
    expect(await errorsOf(letters).catch(() => null)).toMatchObject({ records: onInvalid === 'report' ? 0 : 100 });
  });

  test('file → topic', async () => {
    const folder = scratch();
    const output = await cluster.createTopic('file-to-topic', 2);
    writeFileSync(path.join(folder, 'in.csv'), data.csv);
    const yaml = `source: { type: file, path: in.csv }\nsink: { type: kafka, topic: ${output} }\n`;
    const { summary, metrics } = await run(folder, yaml);
    expect(summary).toEqual(COUNTS);
    expect(countsOf(metrics)).toEqual(COUNTS);
    expect(await errorsOf(output)).toEqual({ records: 1000, errors: 100 });
  });

  test('lag is what is not committed: while reading, while paused, and while nothing is fetched', async () => {
    const [input, output] = await Promise.all([cluster.createTopic('lag-in', 1), cluster.createTopic('lag-out', 1)]);
    const send = (n: number) =>
      produce(
        cluster,
        input,
        Array.from({ length: n }, (_, i) => ({ key: String(i), value: 'x', partition: 0 })),
      );
    await send(500);
    const gate = Promise.withResolvers<void>();
    const seen: number[] = [];
    const processor = await TransactionalProcessor.start({
      connection: { brokers: cluster.brokers },
      topic: input,
      group: 'lag',
      outputTopic: output,
      deadLetterTopic: null,
      process: async ({ records }) => {
        await gate.promise;
        return { outputs: records.map((r) => answerTo(r, r.value)), rejected: [] };
      },
      observer: { onLag: ({ lag }) => seen.push(lag) },
    });
    try {
      // All of them are fetched, none is answered.
      await until(async () => processor.lag().get(0) === 500, 'the lag of the first records');
      expect(seen).not.toContain(0);
      processor.pause('for the test');
      await send(20_000);
      await until(async () => processor.lag().get(0) === 20_500, 'what came while nothing was read');
      gate.resolve();
      processor.resume();
      await until(async () => processor.lag().get(0) === 0, 'everything');
      expect(seen.at(-1)).toBe(0);
    } finally {
      await processor.stop(5_000);
    }
  });
});
