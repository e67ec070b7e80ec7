// A backlog that is drained before the first scrape, or by a run that ends before it: alerts must still see what it counted.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { settled, toldOf, watched } from '../../support/alert-drill.ts';
import { sluiceHere } from '../../support/cli.ts';
import { sampleOf } from '../../support/exposition.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { WatchedPipeline } from '../../support/kafka/watched-pipeline.ts';
import { serveText, Watch } from '../../support/prometheus.ts';
import { campaignTestNeeding } from '../../support/tools.ts';

const [ROWS, BATCH] = [20_000, 2000];
/** The backlog has to be drained within the divided quarter of an hour in which rejects are counted. */
const DIVISOR = 6;
const LIVE = ['SluiceRejectsAboveNormal', 'SluiceUnseenCategories'];
const FINISHED = ['SluiceRunColumnDrift', 'SluiceRunRejectsAboveNormal'];

/** 40 % cannot be scored; the others have a marital status that the training never saw. */
async function sendBacklog(pipeline: WatchedPipeline): Promise<void> {
  for (let sent = 0; sent < ROWS; sent += BATCH) {
    await pipeline.send(BATCH, { broken: 0.4 * BATCH, extra: { marital_status: 'WED' } });
  }
}

/** Drains the same topic once more and exits. Returns its metrics file. */
async function drainOnce({ folder, name, registry }: WatchedPipeline): Promise<string> {
  const [file, metrics] = [path.join(folder, 'once.yaml'), path.join(folder, 'once.prom')];
  const yaml = readFileSync(path.join(folder, `${name}.yaml`), 'utf8');
  writeFileSync(file, yaml.replace(`group: ${name} }`, 'group: once, until_caught_up: true }'));
  const { code, stderr } = await sluiceHere(['run', file, '--metrics-file', metrics, '--registry', registry]);
  expect(code, stderr).toBe(0);
  return readFileSync(metrics, 'utf8');
}

requireKafka('a backlog', () => {
  // Of counters that start with a value the cases of test/monitoring/rule-cases.ts try each rule; this one waits for minutes.
  campaignTestNeeding(
    ['Prometheus', 'Alertmanager'],
    'that was drained before the first scrape raises alerts',
    async () => {
      await using cluster = await KafkaCluster.start();
      await using pipeline = await WatchedPipeline.start(cluster, 'drained');
      await pipeline.end('SIGTERM');
      await sendBacklog(pipeline);
      const once = await drainOnce(pipeline);
      expect(sampleOf(once, 'sluice_run_rows')).toBe(ROWS);
      const collector = await serveText(() => once);

      pipeline.spawn();
      const { port } = pipeline.targets[0]!;
      const counted = async () => {
        const response = await fetch(`http://127.0.0.1:${port}/metrics`).catch(() => null);
        return response ? sampleOf(await response.text(), 'sluice_rows_total') : 0;
      };
      await expect.poll(counted).toBe(ROWS);

      const targets = [...pipeline.targets, { job: 'node', port: collector.port }];
      await using watch = await Watch.start({ targets, divisor: DIVISOR });
      await watched(watch);
      // Nothing grows while it is scraped.
      expect(await watch.query('sum(increase(sluice_rows_total{pipeline=""}[5m])) > 0')).toEqual([]);
      const alerts = [...LIVE, ...FINISHED].toSorted();
      await toldOf(watch, alerts);
      expect(await settled(watch), pipeline.words).toEqual(alerts);
      const rejected = await watch.query('sluice:rows_rejected:ratio_rate15m');
      expect(rejected.map(({ value }) => value)).toEqual([0.4]);
      collector.close();
    },
  );
});
