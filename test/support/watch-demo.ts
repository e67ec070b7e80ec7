// `npm run demo:watch`: a service under load, a portfolio that drifts, and who is told: Prometheus with the rules, Alertmanager, a webhook.
import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { secondsOf } from '../../tools/alerts/times.ts';
import { DRILL_DIVISOR, Load } from './alert-drill.ts';
import { Watch } from './prometheus.ts';
import { WatchedService } from './watched-service.ts';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '150' } } });
const SECONDS = Number(values.seconds);
/** Shares of the time: healthy, then drifted, then healthy again. */
const [DRIFT_FROM, DRIFT_UNTIL] = [0.15, 0.6];
const LINES_SHOWN = 12;

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const began = performance.now();
const passed = (): number => (performance.now() - began) / 1000;
const clock = (): string => `${passed().toFixed(0).padStart(4)} s`;

const portfolio = (seed: number, drift: boolean): Buffer =>
  Buffer.concat([...generatePortfolio({ rows: 200, seed, drift, faults: 1 })]);

/** What is missing to watch with. */
const missing = ['prometheus', 'prometheus-alertmanager'].filter(
  (program) => spawnSync(program, ['--version'], { stdio: 'ignore' }).error,
);

/** Some of what /metrics says. */
async function showMetrics(service: WatchedService): Promise<void> {
  const { text } = await service.request('GET', '/metrics');
  const lines = text.split('\n').filter((line) => /^sluice_(rows|score_psi|column|drift|worker|ready)/.test(line));
  for (const line of lines.slice(0, LINES_SHOWN)) say(`      ${line}`);
}

/** Healthy, drifted, healthy; every alert as it is told. */
async function show(watch: Watch): Promise<void> {
  say(`\n   Prometheus    ${watch.url}/alerts`);
  say(`   Alertmanager  ${watch.alertmanagerUrl}`);
  say('   Dashboards    k8s/monitoring/dashboards: import them in a Grafana whose data source is the Prometheus above');
  say(`\n   Times of the rules are divided by ${DRILL_DIVISOR}: a minute is a second, the hour of drift a minute.\n`);
  let heard = 0;
  let phase = '';
  while (passed() < SECONDS) {
    const drifts = isDrifting();
    const name = drifts ? 'the portfolio drifts: lower incomes, other channels, occupations that nobody knew' : 'the portfolio is that of the training'; // biome-ignore format: one line
    if (name !== phase) say(`${clock()}  ${name}`);
    phase = name;
    for (const told of watch.told.slice(heard)) {
      heard++;
      say(`${clock()}    ${told.status === 'firing' ? told.receiver.toUpperCase().padEnd(6) : 'over  '} ${told.alert}: ${told.annotations.summary}`); // biome-ignore format: one line
    }
    await sleep(500);
  }
  const alerts = [...new Set(watch.told.map((t) => t.alert))].sort();
  say(`\n${clock()}  told of: ${alerts.join(', ') || 'nothing'}. What to do about each: docs/runbooks.md`);
  process.exitCode = alerts.some((name) => name.endsWith('Drift')) ? 0 : 1;
}

const isDrifting = (): boolean => passed() > SECONDS * DRIFT_FROM && passed() < SECONDS * DRIFT_UNTIL;

say('1. A service with the bundled model, under load');
await using service = await WatchedService.start();
say(`   Metrics       https://127.0.0.1:${service.port}/metrics (API-Key ${service.token})`);
let round = 0;
await using _load = new Load(() => service.predict(portfolio(round++, isDrifting())), 100);
if (missing.length > 0) {
  say(`2. ${missing.join(' and ')} are missing: apt-get install ${missing.join(' ')}. What they would read:`);
  await sleep(secondsOf('5s') * 1000);
  await showMetrics(service);
} else {
  say('2. Prometheus with the rules of k8s/monitoring, Alertmanager, and a webhook that says what it is told');
  await using watch = await Watch.start({ targets: service.targets, divisor: DRILL_DIVISOR });
  await show(watch);
  await showMetrics(service);
}
