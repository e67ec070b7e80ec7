// Everything that is watched, at work: every query of every dashboard and every rule against a real Prometheus, which has data for all that should have.
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { RECORDINGS } from '../../../tools/alerts/recordings.ts';
import { DRILL_DIVISOR, Load } from '../../support/alert-drill.ts';
import { sluiceHere } from '../../support/cli.ts';
import { CHOICES, QUERIES, withChoices } from '../../support/dashboard-queries.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { WatchedPipeline } from '../../support/kafka/watched-pipeline.ts';
import { PATIENCE_MS } from '../../support/patience.ts';
import { serveText, Watch } from '../../support/prometheus.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { checkTestNeeding } from '../../support/tools.ts';
import { WatchedService } from '../../support/watched-service.ts';

/** What has no data here, and why; everything else must have. */
const EMPTY: Readonly<Record<string, string>> = {
  'Fleet: Worker deaths': 'no worker dies',
  'Fleet: Faults': 'nothing is left uncaught, and no background work fails',
  'Fleet: Registry': 'a folder is no remote registry',
  'Pipeline: Retries': 'the pipeline has no retry topic',
  'Pipeline: Waiting for retries': 'the pipeline has no retry topic',
  'Pipeline: Transactions given up': 'none is',
  'Pipeline: Takeovers and restarts': 'restarts and resets are of failures',
  'Model & drift: Interpretations left out': 'all effects add up',
  'Model & drift: Asked for effects': 'the effects of its model are computed without asking it',
  'HTTP: Audit log failing: {{instance}} failing': 'the service has no audit log',
  'HTTP: Ends of uploads in parts': 'nothing was uploaded in parts',
  'HTTP: Keys of identity providers read': 'there is no identity provider',
  'HTTP: Age of their keys': 'there is no identity provider',
  'HTTP: Replaced tokens in use': 'no key was rotated',
  'Nightly: Slack': 'the run has no deadline',
  'Nightly: Interpretations done': 'the run has no interpretation',
};
const isDeclared = (at: string): boolean => Object.keys(EMPTY).some((name) => at.startsWith(name));

const portfolio = (rows: number, seed: number, faults = 0) =>
  Buffer.concat([...generatePortfolio({ rows, seed, faults, ids: true })]);

/** A nightly run and outcomes months later: their text files, one after the other. */
async function leftBehind(folder: string): Promise<string> {
  const at = (name: string) => path.join(folder, name);
  const registry = ['--registry', path.resolve('src/bundled')];
  writeFileSync(at('in.csv'), portfolio(1500, 11, 15));
  writeFileSync(
    at('nightly.yaml'),
    `model: credit-default\nsource: { type: file, path: ${at('in.csv')} }\nscore: { passthrough: [application_id] }\nsink: { type: file, path: ${at('out.csv')} }\n`,
  );
  await sluiceHere(['run', at('nightly.yaml'), '--metrics-file', at('nightly.prom'), ...registry]);
  const lines = readFileSync(at('in.csv'), 'utf8').trimEnd().split('\n').slice(1);
  const ids = lines.map((line, i) => `${line.slice(0, line.indexOf(','))},${i % 5 !== 0},2026-03`);
  writeFileSync(at('labels.csv'), `application_id,ok,month\n${ids.join('\n')}\n`);
  const flags = [
    '--labels',
    at('labels.csv'),
    '--key',
    'application_id',
    '--month',
    'month',
    '--model',
    'credit-default:1',
  ];
  const told = await sluiceHere(['outcomes', at('out.csv'), ...flags, '--metrics-file', at('outcomes.prom')]);
  expect(told.code, told.stderr).toBe(0);
  const nightly = readFileSync(at('nightly.prom'), 'utf8');
  // Two pipelines at one node exporter: what is joined by process must bear it.
  const weekly = nightly.replaceAll('pipeline="nightly"', 'pipeline="weekly"');
  return nightly + weekly + readFileSync(at('outcomes.prom'), 'utf8');
}

/** A new version becomes the champion. Again and again: what happened before the first scrape is no increase to Prometheus. */
function swapTo(version: number, service: WatchedService): void {
  const model = path.join(service.registry, 'credit-default');
  const folder = path.join(model, `${version}`);
  copyUnlocked(path.join(model, '1'), folder);
  const manifest = path.join(folder, 'model.yaml');
  writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('version: 1', `version: ${version}`));
  writeFileSync(path.join(model, 'aliases.yaml'), `champion: ${version}\n`);
}

/** A model that does not load. */
function addBroken(service: WatchedService): void {
  const broken = path.join(service.registry, 'broken', '1');
  copyUnlocked(path.join(service.registry, 'credit-default', '1'), broken);
  const manifest = path.join(broken, 'model.yaml');
  writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('id: credit-default', 'id: broken'));
  truncateSync(path.join(broken, 'model.onnx'), 1000);
}

const PREDICT = '/api/v1/scoring/predict';
const QUERY = '?modelId=credit-default&delimiter=comma&passthrough=application_id';

requireKafka('dashboards', () => {
  checkTestNeeding(
    ['Prometheus', 'Alertmanager'],
    'every query parses, and all that should have data have it',
    async () => {
      await using ends = new AsyncDisposableStack();
      const folder = mkdtempSync(path.join(tmpdir(), 'sluice-queries-'));
      ends.defer(() => rmSync(folder, { recursive: true, force: true }));
      const text = await leftBehind(folder);
      const collector = await serveText(() => text);
      ends.defer(() => collector.close());
      const cluster = ends.use(await KafkaCluster.shared());
      const pipeline = ends.use(await WatchedPipeline.start(cluster, 'queries'));
      const service = ends.use(await WatchedService.start());
      const targets = [...service.targets, ...pipeline.targets, { job: 'node', port: collector.port }];
      const watch = ends.use(await Watch.start({ targets, divisor: DRILL_DIVISOR, ownDisk: true }));
      addBroken(service);
      let round = 0;
      ends.use(
        new Load(async () => {
          await service.request('POST', `${PREDICT}.csv${QUERY}`, portfolio(100, round, 5));
          if (++round % 5 !== 0) return;
          await service.request('POST', `${PREDICT}/interpretation.csv${QUERY}`, portfolio(3, round));
          await service.request('POST', `${PREDICT}.csv${QUERY}`, portfolio(30, round), undefined, {
            prefer: 'respond-async',
          });
          await service.request('GET', '/api/v1/models', undefined, 'sluice_guess');
          await service.predict(portfolio(1, round), 'broken');
          if (round % 10 === 0) swapTo(1 + round / 10, service);
        }),
      );
      ends.use(new Load(() => pipeline.send(200, { broken: 3 }), 500));

      const all = [...QUERIES, ...CHOICES, ...RECORDINGS.map(({ record }) => ({ at: record, expr: record }))];
      // Not all at once: what is rare, as a model that is loaded, is out of its window when the last of the others comes.
      let empty = all;
      for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await sleep(1000)) {
        const still: typeof empty = [];
        for (const query of empty) {
          const samples = await watch.query(withChoices(query.expr));
          if (samples.every(({ value }) => Number.isNaN(value))) still.push(query);
        }
        empty = still;
        if (empty.every(({ at }) => isDeclared(at))) break;
      }
      expect(empty.map(({ at }) => at).filter((at) => !isDeclared(at))).toEqual([]);
      expect(await watch.sickRules()).toEqual({});
      expect(await watch.unscraped()).toEqual({});
      expect(Object.keys(EMPTY).filter((name) => !QUERIES.some((q) => q.at.startsWith(name)))).toEqual([]);
    },
  );
});
