// A pipeline whose model is missing: SIGTERM ends it at once, its last log line tells the lag, and no record is lost.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { scratch, start } from '../../support/cli.ts';
import { sampleOf } from '../../support/exposition.ts';
import { someApplications } from '../../support/kafka/applications.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, eachRecord, produce } from '../../support/kafka/topics.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import { until } from '../../support/until.ts';

const RECORDS = 500;

requireKafka('a stop while the model is missing', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());

  test.each(['topic', 'files'])(
    'into %s ends at once with the lag of all records, which the next run answers',
    async (into) => {
      const folder = scratch();
      const group = `waits-${into}`;
      const [input, output] = await Promise.all([
        cluster.createTopic(`${group}-in`, 2),
        cluster.createTopic(`${group}-out`, 2),
      ]);
      const sink =
        into === 'topic'
          ? `{ type: kafka, topic: ${output} }`
          : '{ type: file, path: "out/{partition}-{offset}.ndjson", roll_rows: 100, roll_ms: 500 }';
      const models = path.join(folder, 'models');
      copyUnlocked(CREDIT_DEFAULT, path.join(models, 'credit-default', '1'));
      const file = path.join(folder, 'waits.yaml');
      writeFileSync(
        file,
        `model: credit-default@live
source: { type: kafka, topic: ${input}, group: ${group} }
score: { batch_wait_ms: 10, workers: 1 }
sink: ${sink}
on_invalid: report
kafka: { brokers: ["${cluster.brokers.join('","')}"], session_timeout_ms: 6000 }
`,
      );
      const applications = someApplications();
      await produce(
        cluster,
        input,
        Array.from({ length: RECORDS }, (_, i) => ({
          key: String(i),
          value: JSON.stringify(applications[i % applications.length]),
        })),
      );
      const run = (what = file) => {
        const started = start(['run', what, '--registry', models, '--metrics-port', '0', '--stop-ms', '3600000'], {
          cwd: folder,
        });
        onTestFinished(async () => {
          started.child.kill('SIGKILL');
          await started.done;
        });
        let log = '';
        started.child.stderr!.on('data', (text: string) => {
          log += text;
        });
        return { ...started, log: () => log };
      };
      // A run that would have ended by itself is not complete.
      const upToEnd = path.join(folder, 'up-to-end.yaml');
      writeFileSync(
        upToEnd,
        readFileSync(file, 'utf8').replace(`group: ${group} }`, `group: ${group}-end, until_caught_up: true }`),
      );
      const incomplete = run(upToEnd);
      await until(() => incomplete.log().includes('paused'), 'the pause');
      incomplete.child.kill('SIGTERM');
      expect((await incomplete.done).code).toBe(1);
      expect(incomplete.log()).toContain('stopped by SIGTERM before the topics were read to their end');
      const waiting = run();
      await until(async () => waiting.log().includes('/metrics'), 'the address of the metrics');
      const url = /http:\S+\/metrics/.exec(waiting.log())![0];
      const lag = async () =>
        sampleOf(await (await fetch(url)).text(), 'sluice_kafka_lag_records', { pipeline: 'waits' });
      await until(async () => (await lag()) === RECORDS && waiting.log().includes('paused'), 'the pause');

      // A stop that waited for its deadline would take an hour.
      waiting.child.kill('SIGTERM');
      const { code } = await waiting.done;
      expect(code).toBe(0);
      const lines = waiting.log().trimEnd().split('\n');
      expect(lines.findLast((line) => line.includes('lag'))).toMatch(/lag 500$/);
      expect(await committed(cluster, group, input).catch(() => 0)).toBe(0);

      await new FolderRegistry([models]).moveAlias('credit-default', 'live', '1', 'test');
      const answering = run();
      await until(async () => (await committed(cluster, group, input)) === RECORDS, 'all records to be answered');
      answering.child.kill('SIGTERM');
      expect((await answering.done).code).toBe(0);
      expect(answering.log()).toMatch(/lag 0$/m);
      const keys: string[] = [];
      if (into === 'topic') await eachRecord(cluster, output, ({ key }) => keys.push(String(key)));
      else {
        for (const name of readdirSync(path.join(folder, 'out'))) {
          for (const line of readFileSync(path.join(folder, 'out', name), 'utf8')
            .trimEnd()
            .split('\n'))
            keys.push(JSON.parse(line).record.key);
        }
      }
      expect(keys.map(Number).toSorted((a, b) => a - b)).toEqual(Array.from({ length: RECORDS }, (_, i) => i));
    },
  );
});
