// Drills: one thing goes wrong at a time, with `sluice serve` and `sluice run` as they are deployed. The right alert reaches the webhook, no other does.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { DRILL_DIVISOR, Load, settled, toldOf, watched } from '../support/alert-drill.ts';
import { sluiceHere } from '../support/cli.ts';
import { requirePostgres } from '../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../support/postgres/server.ts';
import { serveText, Watch } from '../support/prometheus.ts';
import { copyUnlocked } from '../support/registries/packages.ts';
import { S3_KEYS } from '../support/registries/servers.ts';
import { times } from '../support/tiers.ts';
import { newSigningKey, oidcSettings, tokenProvider } from '../support/token-provider.ts';
import { campaignTestNeeding, checkTestNeeding, type ToolName } from '../support/tools.ts';
import { until } from '../support/until.ts';
import { type WatchedOptions, WatchedService } from '../support/watched-service.ts';

interface Scene {
  service: WatchedService;
  watch: Watch;
  folder: string;
  /** What the collector of text files hands on. */
  text: { current: string };
}

interface Drill {
  what: string;
  alerts: readonly string[];
  /** Alerts that may fire, too: whether they do depends on what was in hand. */
  may?: readonly string[];
  options?: WatchedOptions | ((folder: string, ends: AsyncDisposableStack) => WatchedOptions | Promise<WatchedOptions>);
  bring?: (scene: Scene) => Promise<unknown>;
  /** Repeated until the alert is told. */
  again?: (scene: Scene) => Promise<unknown>;
  needs?: readonly ToolName[];
  /** Part of the sample that `npm run check` does. */
  sample?: true;
  /** It fills a disk of its own. */
  ownDisk?: boolean;
}

const rows = (count: number, seed: number, faults = 0): Buffer =>
  Buffer.concat([...generatePortfolio({ rows: count, seed, faults })]);
const HEALTHY = rows(100, 3, 1);
const REJECTED = rows(1000, 4, 600);
/** Others in each round, because a hundred applicants again and again are another population. */
const healthy = (round: number): Buffer => rows(100, 1000 + round, 1);

const DRIFTED = Buffer.concat([...generatePortfolio({ rows: 300, seed: 5, drift: true })]);

/** Enough for a PSI, which needs 1,000. */
const NIGHTLY_ROWS = 3000;

/** A portfolio with other values in one column. */
function withColumn(column: string, change: (value: string) => string, count = 300): string {
  const text = Buffer.concat([...generatePortfolio({ rows: count, seed: 6, oddness: 'none' })]).toString();
  const [header, ...lines] = text.trimEnd().split('\n');
  const at = header!.split(',').indexOf(column);
  const changed = lines.map((line) => line.split(',').map((v, i) => (i === at ? change(v) : v)));
  return `${header}\n${changed.join('\n')}\n`;
}

/** A version of the bundled model whose graph ends too early. */
function damagedVersion({ service }: Scene, id: string, version: number): void {
  const folder = path.join(service.registry, id, String(version));
  copyUnlocked(path.join(service.registry, 'credit-default', '1'), folder);
  const manifest = path.join(folder, 'model.yaml');
  const yaml = readFileSync(manifest, 'utf8').replace('id: credit-default', `id: ${id}`);
  writeFileSync(manifest, yaml.replace('version: 1', `version: ${version}`));
  truncateSync(path.join(folder, 'model.onnx'), 1000);
}

/** Process ids of the workers of a service whose models are served by ONNX Runtime. */
const workersOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);

/** The metrics that a run of files left behind. */
async function leftBehind(folder: string, input: Buffer | string, more = ''): Promise<string> {
  writeFileSync(path.join(folder, 'in.csv'), input);
  const pipeline = path.join(folder, 'nightly.yaml');
  writeFileSync(
    pipeline,
    `model: credit-default\nsource: { type: file, path: ${folder}/in.csv }\nsink: { type: file, path: ${folder}/out.csv }\n${more}`,
  );
  const file = path.join(folder, 'nightly.prom');
  await sluiceHere(['run', pipeline, '--metrics-file', file, '--registry', path.resolve('src/bundled')]);
  return readFileSync(file, 'utf8');
}

/** Tokens go on being taken, with the keys that were read last. */
function providerAway(): Drill {
  let provider: Awaited<ReturnType<typeof tokenProvider>>;
  const ask = async ({ service }: Scene) =>
    service.request('GET', '/api/v1/models', undefined, '', {
      authorization: `Bearer ${await provider.sign({ scope: 'models:read' })}`,
    });
  return {
    what: 'the identity provider is away',
    alerts: ['SluiceIdentityProviderUnreachable'],
    options: async (folder, ends) => {
      provider = await tokenProvider(await newSigningKey('k'), { folder, onEnd: (end) => ends.defer(end) });
      return { settings: [oidcSettings(provider, { keys_refresh_ms: 1000, keys_cooldown_ms: 100 })] };
    },
    bring: async (scene) => {
      expect((await ask(scene)).status).toBe(200);
      provider.published.status = 503;
    },
    again: ask,
  };
}

/** Predictions go on. */
function jobTableAway(): Drill {
  let postgres: PostgresServer;
  return {
    what: 'the database of the jobs is away',
    alerts: ['SluiceJobTableUnreachable'],
    options: async (_, ends) => {
      postgres = await startPostgres();
      ends.defer(() => postgres.stop());
      const settings = ['jobs.shared.database.url_env=JOBS_DATABASE', 'jobs.shared.files=s3://jobs/drill'];
      // Nobody asks for a file.
      return { settings, env: { ...S3_KEYS, AWS_REGION: 'us-east-1', JOBS_DATABASE: postgres.url } };
    },
    bring: () => postgres.pause(),
  };
}

const DRILLS: readonly Drill[] = [
  providerAway(),
  {
    what: 'an alias is moved to a damaged version',
    alerts: ['SluiceModelStale'],
    sample: true,
    bring: async (scene) => {
      damagedVersion(scene, 'credit-default', 2);
      writeFileSync(path.join(scene.service.registry, 'credit-default', 'aliases.yaml'), 'champion: 2\n');
    },
  },
  {
    what: 'a damaged model is asked for that never served',
    alerts: ['SluiceModelNotLoadable'],
    bring: async (scene) => {
      damagedVersion(scene, 'broken', 1);
      await scene.service.predict(HEALTHY, 'broken');
    },
  },
  { what: 'a certificate expires in a week', alerts: ['SluiceCertificateExpiring'], options: { certificateDays: 7 } },
  { what: 'a certificate expires tomorrow', alerts: ['SluiceCertificateExpiresSoon'], options: { certificateDays: 1 } },
  { what: 'a key expires in a week', alerts: ['SluiceKeyExpiring'], options: { keyDays: 7 } },
  {
    what: 'a flood of rejects',
    alerts: ['SluiceRejectsAboveNormal'],
    again: ({ service }) => Promise.all([service.predict(REJECTED), service.predict(REJECTED)]),
  },
  {
    what: 'workers are killed',
    alerts: ['SluiceWorkersDie'],
    // Requests that a killed worker had in hand may fail: first errors count, too.
    may: ['SluiceErrorBudgetBurnFast'],
    options: { settings: ['evaluator=onnxruntime'] },
    again: async ({ service }) => {
      const killed = workersOf(service.pid);
      for (const worker of killed) process.kill(worker, 'SIGKILL');
      // A worker that is killed before it is ready is not replaced.
      const replaced = async () => {
        const workers = workersOf(service.pid);
        if (workers.length < killed.length || workers.some((worker) => killed.includes(worker))) return false;
        return (await service.predict(HEALTHY)).status === 200;
      };
      await until(replaced, 'the replacement', 200);
    },
  },
  {
    what: 'the service is overloaded',
    alerts: ['SluiceErrorBudgetBurnFast'],
    options: { settings: ['limits.concurrent_requests=1', 'limits.queued_requests=0'] },
    again: ({ service }) => Promise.all(Array.from({ length: 8 }, () => service.predict(rows(2000, 5)))),
  },
  {
    what: 'clients go in the middle of their answers',
    alerts: ['SluiceAnswersCut'],
    again: ({ service }) => service.leave(rows(15_000, 6)),
  },
  {
    what: 'the disk for answers is full',
    alerts: ['SluiceDiskLow'],
    ownDisk: true,
    needs: ['unshare as root'],
    options: (folder, ends) => {
      const disk = path.join(folder, 'disk');
      mkdirSync(disk);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1200m', 'tmpfs', disk]);
      ends.defer(() => void execFileSync('umount', ['-l', disk]));
      return { settings: [`spill.folder=${disk}`] };
    },
    bring: async ({ folder }) => execFileSync('fallocate', ['-l', '300m', path.join(folder, 'disk', 'full')]),
  },
  {
    what: 'the disk for the audit log is full',
    alerts: ['SluiceAuditFailed', 'SluiceDiskLow'],
    ownDisk: true,
    needs: ['unshare as root'],
    options: (folder, ends) => {
      const disk = path.join(folder, 'disk');
      mkdirSync(disk);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1200m', 'tmpfs', disk]);
      ends.defer(() => void execFileSync('umount', ['-l', disk]));
      return { settings: [`audit.file=${disk}/audit.ndjson`, 'audit.on_failure=continue'] };
    },
    bring: async ({ folder }) =>
      execFileSync('sh', ['-c', `cat /dev/zero > ${path.join(folder, 'disk', 'full')} 2>/dev/null || true`]),
    again: ({ service }) => service.request('GET', '/api/v1/models'),
  },
  {
    what: 'somebody tries keys',
    alerts: ['SluiceLoginsFail'],
    again: ({ service }) => service.request('GET', '/api/v1/models', undefined, 'sluice_guess'),
  },
  {
    what: 'the process is killed',
    alerts: ['SluiceDown'],
    bring: async ({ service }) => service.kill('SIGKILL'),
  },
  { what: 'the process hangs', alerts: ['SluiceDown'], bring: async ({ service }) => service.kill('SIGSTOP') },
  {
    what: 'a portfolio drifts',
    alerts: ['SluiceColumnDrift', 'SluiceMissingValues', 'SluiceUnseenCategories'],
    again: ({ service }) => service.predict(DRIFTED),
  },
  {
    what: 'a sender renames a category',
    alerts: ['SluiceUnseenCategories'],
    again: ({ service }) => service.predict(withColumn('marital_status', (v) => (v === 'MARRIED' ? 'WED' : v))),
  },
  {
    what: 'a column stays empty',
    alerts: ['SluiceMissingValues'],
    again: ({ service }) => service.predict(withColumn('marital_status', () => '')),
  },
  {
    what: 'no nightly run since the day before yesterday',
    alerts: ['SluiceNightlyRunMissing'],
    bring: async ({ folder, text }) => {
      const left = await leftBehind(folder, HEALTHY);
      text.current = left.replace(/^(sluice_run_last_\w+_timestamp_seconds\S*) (\S+)/gm, (_, name, seconds) => `${name} ${Number(seconds) - 27 * 3600}`); // biome-ignore format: one line
    },
  },
  {
    what: 'the nightly run fails',
    alerts: ['SluiceRunFailed'],
    bring: async ({ folder, text }) => {
      text.current = await leftBehind(folder, 'nothing,of,the,model\n1,2,3,4\n');
    },
  },
  {
    what: 'the nightly run ends after its deadline',
    alerts: ['SluiceDeadlineAtRisk'],
    bring: async ({ folder, text }) => {
      const late = new Date(Date.now() - 3_600_000).toISOString().slice(0, 16);
      text.current = await leftBehind(folder, HEALTHY, `deadline: ${late}Z\n`);
    },
  },
  {
    what: 'the nightly run rejects most of its rows',
    alerts: ['SluiceRunRejectsAboveNormal'],
    bring: async ({ folder, text }) => {
      text.current = await leftBehind(folder, REJECTED);
    },
  },
  {
    what: 'a sender renames a category before the nightly run',
    alerts: ['SluiceRunColumnDrift'],
    sample: true,
    bring: async ({ folder, text }) => {
      const renamed = withColumn('marital_status', (v) => (v === 'MARRIED' ? 'WED' : v), NIGHTLY_ROWS);
      text.current = await leftBehind(folder, renamed);
    },
  },
  {
    what: 'every applicant of the nightly run had arrears',
    alerts: ['SluiceRunColumnDrift', 'SluiceRunScoreDrift'],
    bring: async ({ folder, text }) => {
      text.current = await leftBehind(
        folder,
        withColumn('had_arrears', () => 'true', NIGHTLY_ROWS),
      );
    },
  },
  {
    what: 'the portfolio of the nightly run drifts',
    alerts: ['SluiceRunColumnsDrifted'],
    bring: async ({ folder, text }) => {
      const drifted = [...generatePortfolio({ rows: NIGHTLY_ROWS, seed: 5, drift: true })];
      text.current = await leftBehind(folder, Buffer.concat(drifted));
    },
  },
  {
    what: 'a promise is rejected where nobody catches it',
    alerts: ['SluiceProcessFault'],
    options: (folder) => {
      const preload = path.join(folder, 'fault.mjs');
      writeFileSync(preload, "process.on('SIGUSR2', () => void Promise.reject(new Error('drill')));\n");
      return { env: { NODE_OPTIONS: `--import=${preload}` } };
    },
    bring: async ({ service }) => service.kill('SIGUSR2'),
  },
];

async function drill({ what, alerts, may = [], ownDisk = false, options = {}, bring, again }: Drill): Promise<void> {
  await using ends = new AsyncDisposableStack();
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-drill-'));
  ends.defer(() => rmSync(folder, { recursive: true, force: true }));
  const text = { current: '' };
  const collector = await serveText(() => text.current);
  ends.defer(() => collector.close());
  await using service = await WatchedService.start(
    typeof options === 'function' ? await options(folder, ends) : options,
  );
  const targets = [...service.targets, { job: 'node', port: collector.port }];
  await using watch = await Watch.start({ targets, divisor: DRILL_DIVISOR, ownDisk });
  const scene: Scene = { service, watch, folder, text };
  {
    await using _load = new Load((round) => service.predict(healthy(round)));
    await watched(watch);
    await bring?.(scene);
    await using _again = again === undefined ? null : new Load(() => again(scene), 100);
    await toldOf(watch, alerts);
    const told = await settled(watch);
    expect(
      told.filter((name) => !may.includes(name)),
      what,
    ).toEqual(alerts);
  }
}

// Side by side, because a drill waits more than it works.
describe.concurrent('drills', () => {
  for (const one of DRILLS) {
    const drillTest = one.sample ? checkTestNeeding : campaignTestNeeding;
    const needs = ['Prometheus', 'Alertmanager', ...(one.needs ?? [])] as const;
    drillTest(needs, `${one.what}: ${one.alerts.join(', ')}`, () => drill(one));
  }

  // healthy.test.ts asks for more: there no alert may be pending even for a moment.
  campaignTestNeeding(['Prometheus', 'Alertmanager'], 'under healthy load nothing is told', async () => {
    const seconds = times('healthy seconds', { quick: 0, check: 0, campaigns: 600 });
    await using service = await WatchedService.start();
    await using watch = await Watch.start({ targets: service.targets, divisor: DRILL_DIVISOR });
    await using load = new Load((round) => service.predict(healthy(round)));
    await watched(watch);
    expect(await settled(watch, seconds * 1000)).toEqual([]);
    expect(load.rounds).toBeGreaterThan(0);
    expect(await watch.sickRules()).toEqual({});
  });
});

requirePostgres('drills with PostgreSQL', () => {
  const one = jobTableAway();
  const needs = ['Prometheus', 'Alertmanager'] as const;
  campaignTestNeeding(needs, `${one.what}: ${one.alerts.join(', ')}`, () => drill(one));
});
