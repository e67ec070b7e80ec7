// Scrapes a healthy service and a healthy run with a real Prometheus: none of the shipped rules may raise an alert, even for a moment.
import { expect } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { ALERTS } from '../../tools/alerts/alert-table.ts';
import { HEALTHY_DIVISOR, Load, quietFor, watched } from '../support/alert-drill.ts';
import { serveText, Watch } from '../support/prometheus.ts';
import { times } from '../support/tiers.ts';
import { checkTestNeeding } from '../support/tools.ts';
import { WatchedRun } from '../support/watched-run.ts';
import { WatchedService } from '../support/watched-service.ts';

const SECONDS = times('healthy seconds of a service', { quick: 0, check: 24, campaigns: 180 });
/** Every round has other applicants: the same hundred repeated would be a drifted population. */
const applicants = (round: number): Buffer =>
  Buffer.concat([...generatePortfolio({ rows: 100, seed: 2000 + round, faults: 1 })]);
const withoutHeader = (csv: Buffer): Buffer => csv.subarray(csv.indexOf('\n') + 1);

/** The metrics file of a nightly run that ended a moment ago. */
async function nightlyFile(): Promise<string> {
  await using run = await WatchedRun.start(Buffer.concat([...generatePortfolio({ rows: 5000, seed: 7, faults: 50 })]));
  return (await run.finish()).metricsFile;
}

checkTestNeeding(
  ['Prometheus', 'Alertmanager'],
  'no alert is raised while serve, run and nightly run are healthy',
  async () => {
    const nightly = await nightlyFile();
    const collector = await serveText(() => nightly);
    await using service = await WatchedService.start();
    await using run = await WatchedRun.start(applicants(0));
    await using _requests = new Load((round) => service.predict(applicants(round)));
    await using _rows = new Load((round) => run.write(withoutHeader(applicants(round + 1))));
    await expect.poll(() => run.page('/readyz')).toBe('ready\n');
    const targets = [...service.targets, ...run.targets, { job: 'node', port: collector.port }];
    // With windows as shipped, and with windows short enough to be full within the test.
    await using shipped = await Watch.start({ targets, divisor: 1, immediate: true });
    await using divided = await Watch.start({ targets, divisor: HEALTHY_DIVISOR, immediate: true });
    for (const watch of [shipped, divided]) {
      await watched(watch);
      expect(await watch.loadedAlerts()).toEqual({ alerts: ALERTS.length, waiting: 0 });
    }
    await quietFor([shipped, divided], SECONDS * 1000);
    for (const job of ['sluice-serve', 'sluice-pipelines']) {
      expect(await shipped.query(`sum(sluice_rows_total{job="${job}"}) > 1000`)).toHaveLength(1);
    }
    collector.close();
  },
);
