// A real Prometheus, and a real Alertmanager in front of a webhook, each in a folder of its own and gone with the process that started it.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stringify } from 'yaml';
import { alertmanagerFile, rulesFile } from '../../tools/alerts/rules-file.ts';
import { Times } from '../../tools/alerts/times.ts';
import { PATIENCE_MS } from './patience.ts';
import { freePorts } from './ports.ts';

/** Ends the program when standard input closes, which the kernel does for us whatever happens here. */
const GUARD = `exec 3<&0; "$@" >>"$LOG" 2>&1 </dev/null 3<&- & program=$!
(read -r word <&3; kill -9 $program) 2>/dev/null & wait $program`;

/** Where metrics are read: one job each. */
export interface ScrapeTarget {
  job: string;
  port: number;
  path?: string;
  /** Over HTTPS with this key. */
  token?: string;
}

export interface Sample {
  metric: Record<string, string>;
  value: number;
}

/** A notification as the webhook got it. */
export interface Told {
  status: 'firing' | 'resolved';
  alert: string;
  receiver: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}

/** With less free space, neighbours on the disk of the machine could raise `SluiceDiskLow`, which needs less than 10 GiB. */
const ROOMY_BYTES = 20 * 1024 ** 3;

/** The longest time between two scrapes, which is also how long a scrape may take. */
const LONGEST_INTERVAL_S = 3;

export interface WatchOptions {
  targets: readonly ScrapeTarget[];
  /** Divides the times of the rules: 60 makes a second of a minute. Such a minute has at least one scrape. */
  divisor: number;
  /** Free space is watched even if the machine has little of it: the test has a disk of its own, or no alert matters. */
  ownDisk?: boolean;
  /** Sets every `for` to 0, so that an alert fires at the first evaluation that finds anything. */
  immediate?: boolean;
}

/** Prometheus with the rules, Alertmanager with the inhibitions, and what reaches the webhook behind them. `await using` ends it. */
export class Watch implements AsyncDisposable {
  readonly told: Told[] = [];
  readonly folder = mkdtempSync(path.join(tmpdir(), 'sluice-watch-'));
  readonly #programs: ChildProcess[] = [];
  readonly #webhook: http.Server;
  readonly #divisor: number;
  readonly #immediate: boolean;
  readonly #watchesDisks: boolean;
  /** Seconds between two scrapes. */
  readonly interval: number;
  #ports = { prometheus: 0, alertmanager: 0 };

  private constructor({ divisor, ownDisk = false, immediate = false }: WatchOptions) {
    this.#divisor = divisor;
    this.#immediate = immediate;
    this.interval = Math.max(1, Math.min(LONGEST_INTERVAL_S, Math.round(60 / divisor)));
    const { bavail, bsize } = statfsSync(this.folder);
    this.#watchesDisks = ownDisk || bavail * bsize > ROOMY_BYTES;
    this.#webhook = http.createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        this.#hear(path.basename(request.url ?? ''), JSON.parse(Buffer.concat(chunks).toString()));
        response.end();
      });
    });
  }

  static async start(options: WatchOptions): Promise<Watch> {
    const watch = new Watch(options);
    try {
      await new Promise<void>((resolve) => watch.#webhook.listen(0, '127.0.0.1', resolve));
      const [prometheus, alertmanager] = await freePorts(2);
      watch.#ports = { prometheus: prometheus!, alertmanager: alertmanager! };
      watch.#startAlertmanager();
      watch.scrape(options.targets);
      watch.#startPrometheus();
      await watch.#ready();
      return watch;
    } catch (error) {
      await watch[Symbol.asyncDispose]();
      throw error;
    }
  }

  get url(): string {
    return `http://127.0.0.1:${this.#ports.prometheus}`;
  }

  get alertmanagerUrl(): string {
    return `http://127.0.0.1:${this.#ports.alertmanager}`;
  }

  /** Whom it scrapes from now on. */
  scrape(targets: readonly ScrapeTarget[]): void {
    const interval = `${this.interval}s`;
    const withoutDisks = { source_labels: ['__name__'], regex: 'sluice_disk_free_bytes', action: 'drop' };
    const config = {
      global: { scrape_interval: interval, scrape_timeout: interval, evaluation_interval: interval },
      rule_files: [path.join(this.folder, 'rules.yaml')],
      alerting: { alertmanagers: [{ static_configs: [{ targets: [`127.0.0.1:${this.#ports.alertmanager}`] }] }] },
      scrape_configs: targets.map(({ job, port, path: metricsPath = '/metrics', token }) => ({
        job_name: job,
        metrics_path: metricsPath,
        static_configs: [{ targets: [`127.0.0.1:${port}`] }],
        ...(this.#watchesDisks ? {} : { metric_relabel_configs: [withoutDisks] }),
        ...(token === undefined
          ? {}
          : {
              scheme: 'https',
              tls_config: { insecure_skip_verify: true },
              authorization: { type: 'API-Key', credentials: token },
            }),
      })),
    };
    const rules = rulesFile(new Times(this.#divisor));
    writeFileSync(
      path.join(this.folder, 'rules.yaml'),
      this.#immediate ? rules.replaceAll(/^( +for:) .*$/gm, '$1 0s') : rules,
    );
    writeFileSync(path.join(this.folder, 'prometheus.yaml'), stringify(config));
  }

  /** The value of an expression now. @throws Error with Prometheus' words where it does not parse */
  async query(expr: string): Promise<Sample[]> {
    const data = (await this.#get(`query?${new URLSearchParams({ query: expr })}`)) as {
      result: { metric: Record<string, string>; value: [number, string] }[];
    };
    return data.result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }));
  }

  /** Rules that could not be evaluated: name → why. */
  async sickRules(): Promise<Record<string, string>> {
    const data = (await this.#get('rules')) as {
      groups: { rules: { name: string; health: string; lastError?: string }[] }[];
    };
    const rules = data.groups.flatMap((g) => g.rules);
    return Object.fromEntries(rules.filter((r) => r.health !== 'ok').map((r) => [r.name, r.lastError ?? r.health]));
  }

  /** Targets that cannot be scraped: URL → why. */
  async unscraped(): Promise<Record<string, string>> {
    const data = (await this.#get('targets')) as {
      activeTargets: { scrapeUrl: string; health: string; lastError: string }[];
    };
    const bad = data.activeTargets.filter((t) => t.health !== 'up');
    return Object.fromEntries(bad.map((t) => [t.scrapeUrl, t.lastError || t.health]));
  }

  /** How many alerts Prometheus has loaded, and how many of them wait before they fire. */
  async loadedAlerts(): Promise<{ alerts: number; waiting: number }> {
    const data = (await this.#get('rules')) as { groups: { rules: { type: string; duration?: number }[] }[] };
    const alerts = data.groups.flatMap((g) => g.rules).filter((rule) => rule.type === 'alerting');
    return { alerts: alerts.length, waiting: alerts.filter((rule) => rule.duration !== 0).length };
  }

  /** Alerts that were pending or firing at any evaluation. */
  async raised(): Promise<string[]> {
    const found = await this.query('group by (alertname) (max_over_time(ALERTS[1h]))');
    return found.map(({ metric }) => metric.alertname!).toSorted();
  }

  /** Names of the alerts that reached the webhook and are not over, in the order of the alphabet. */
  firing(): string[] {
    const last = new Map<string, Told>();
    for (const told of this.told) last.set(JSON.stringify(told.labels), told);
    return [...new Set([...last.values()].filter((t) => t.status === 'firing').map((t) => t.alert))].sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.#programs.map((guard) => {
        const gone = guard.exitCode !== null || new Promise((resolve) => guard.once('exit', resolve));
        guard.stdin!.end();
        return gone;
      }),
    );
    this.#webhook.close();
    this.#webhook.closeAllConnections();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #hear(receiver: string, { alerts }: { alerts: Omit<Told, 'alert' | 'receiver'>[] }): void {
    for (const { status, labels, annotations } of alerts) {
      this.told.push({ status, labels, annotations, receiver, alert: labels.alertname! });
    }
  }

  #startPrometheus(): void {
    this.#run('prometheus', [
      `--config.file=${path.join(this.folder, 'prometheus.yaml')}`,
      `--storage.tsdb.path=${path.join(this.folder, 'prometheus')}`,
      `--web.listen-address=127.0.0.1:${this.#ports.prometheus}`,
      '--web.enable-lifecycle',
      // A series that is gone shall be so after a few scrapes, as it is in production.
      `--query.lookback-delta=${10 * this.interval}s`,
      '--rules.alert.resend-delay=2s',
    ]);
  }

  #startAlertmanager(): void {
    const hook = `http://127.0.0.1:${(this.#webhook.address() as AddressInfo).port}`;
    const receivers = { page: `${hook}/page`, ticket: `${hook}/ticket`, groupWait: '2s', groupInterval: '2s' };
    const config = path.join(this.folder, 'alertmanager.yaml');
    writeFileSync(config, alertmanagerFile(receivers));
    this.#run('prometheus-alertmanager', [
      `--config.file=${config}`,
      `--storage.path=${path.join(this.folder, 'alertmanager')}`,
      `--web.listen-address=127.0.0.1:${this.#ports.alertmanager}`,
      '--cluster.listen-address=',
    ]);
  }

  #run(program: string, args: readonly string[]): void {
    const log = path.join(this.folder, `${program}.log`);
    mkdirSync(this.folder, { recursive: true });
    openSync(log, 'a');
    const guard = spawn('sh', ['-c', GUARD, 'sh', program, ...args], {
      stdio: ['pipe', 'ignore', 'ignore'],
      env: { ...process.env, LOG: log },
    });
    this.#programs.push(guard);
  }

  async #ready(): Promise<void> {
    const end = Date.now() + PATIENCE_MS;
    for (const url of [this.url, this.alertmanagerUrl]) {
      for (;;) {
        const answer = await fetch(`${url}/-/ready`).catch(() => null);
        if (answer?.ok) break;
        const gone = this.#programs.some((guard) => guard.exitCode !== null);
        if (gone || Date.now() > end) throw new Error(`not ready:\n${this.log()}`);
        await sleep(100);
      }
    }
  }

  /** The end of what both programs said. */
  log(): string {
    return ['prometheus', 'prometheus-alertmanager']
      .map((name) => readFileSync(path.join(this.folder, `${name}.log`), 'utf8').slice(-2000))
      .join('\n');
  }

  async #get(what: string): Promise<unknown> {
    const answer = await fetch(`${this.url}/api/v1/${what}`);
    const { status, data, error } = (await answer.json()) as { status: string; data: unknown; error?: string };
    if (status !== 'success') throw new Error(error);
    return data;
  }
}

/** Text as the node exporter's textfile collector would hand it on, at a port of its own. */
export async function serveText(read: () => string): Promise<{ port: number; close(): void }> {
  const server = http.createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' }).end(read());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { port: (server.address() as AddressInfo).port, close };
}
