// examples/compose.yaml without Docker: its structure, its configurations, and its setup script run in a folder of this machine.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/load-config.ts';
import { ServerConfigSchema } from '../../src/config/server-config.ts';
import { COMMAND_TABLES } from '../../src/doors/commands/flags/all-commands.ts';
import { MAIN, scratch, sluice, start } from '../support/cli.ts';
import { call } from '../support/service.ts';
import { checkTestNeeding } from '../support/tools.ts';
import { until } from '../support/until.ts';

interface Service {
  image: string;
  pull_policy?: string;
  entrypoint?: string[];
  command?: string[];
  environment?: Record<string, string | number>;
  depends_on?: Record<string, { condition: string }>;
  configs?: { source: string; target: string }[];
  healthcheck?: { test?: string[]; disable?: boolean };
  volumes?: string[];
  ports?: string[];
}

interface Compose {
  name: string;
  services: Record<string, Service>;
  configs: Record<string, { content: string }>;
  volumes: Record<string, null>;
}

const FILE = 'examples/compose.yaml';
const TEXT = readFileSync(FILE, 'utf8');
const compose = parse(TEXT) as Compose;
/** Keys of the Compose specification that the file uses. */
const SERVICE_KEYS = ['image', 'pull_policy', 'entrypoint', 'command', 'environment', 'depends_on', 'configs', 'healthcheck', 'volumes', 'ports', 'stop_grace_period', 'restart']; // biome-ignore format: one list
const STATE = '/var/lib/sluice';

/** What breaks a file of Compose, or makes two starts of it differ. */
function findings({ services, configs, volumes, ...rest }: Compose): string[] {
  const found: string[] = Object.keys(rest).filter((key) => key !== 'name');
  const ports = new Set<string>();
  for (const [name, service] of Object.entries(services)) {
    const say = (what: string) => found.push(`${name}: ${what}`);
    for (const key of Object.keys(service)) if (!SERVICE_KEYS.includes(key)) say(`unknown key ${key}`);
    const isLocal = service.image === 'sluice:latest' && service.pull_policy === 'never';
    if (!isLocal && !/^[\w./-]+:v?\d+\.\d+\.\d+$/.test(service.image)) say(`image ${service.image}`);
    for (const [other, { condition }] of Object.entries(service.depends_on ?? {})) {
      if (!services[other]) say(`depends on ${other}`);
      else if (condition === 'service_healthy' && !services[other].healthcheck?.test)
        say(`${other} has no healthcheck`);
    }
    for (const { source } of service.configs ?? []) if (!configs[source]) say(`config ${source}`);
    for (const mount of service.volumes ?? []) {
      const [source] = mount.split(':') as [string];
      const exists = source.startsWith('.') ? existsSync(path.join('examples', source)) : source in volumes;
      if (!exists) say(`volume ${source}`);
    }
    for (const port of service.ports ?? []) {
      const [address, host] = port.split(':') as [string, string];
      if (address !== '127.0.0.1') say(`port ${port} is open to the network`);
      if (ports.has(host)) say(`port ${host} is used twice`);
      ports.add(host);
    }
  }
  return found;
}

test('compose: images are pinned, mounts exist, ports are unique', () => {
  expect(findings(compose)).toEqual([]);
  expect(Object.keys(compose.services)).toEqual(['setup', 'service', 'pipeline', 'kafka', 'topics', 'prometheus']);
  // Compose replaces $NAME and ${NAME} by variables of the caller unless the dollar is doubled.
  expect(TEXT.replaceAll('$$', '')).not.toContain('$');
});

const BROKEN: readonly [says: string, spoil: (services: Compose['services']) => void][] = [
  ['kafka: image apache/kafka', (s) => Object.assign(s.kafka!, { image: 'apache/kafka' })],
  ['kafka: image apache/kafka:latest', (s) => Object.assign(s.kafka!, { image: 'apache/kafka:latest' })],
  ['pipeline: volume ../nowhere.yaml', (s) => s.pipeline!.volumes!.push('../nowhere.yaml:/x:ro')],
  ['prometheus: port 8443 is used twice', (s) => Object.assign(s.prometheus!, { ports: ['127.0.0.1:8443:9090'] })],
  ['service: port 8443:8443 is open to the network', (s) => Object.assign(s.service!, { ports: ['8443:8443'] })],
  ['topics: kafka has no healthcheck', (s) => delete s.kafka!.healthcheck],
];

test.each(BROKEN)('compose: "%s" is found', (says, spoil) => {
  const spoiled = structuredClone(compose);
  spoil(spoiled.services);
  expect(findings(spoiled)).toContain(says);
});

test('compose: the pipeline passes lint, uses the broker, and its topics are created', async () => {
  const { pipeline, topics, kafka } = compose.services;
  const [, ...args] = pipeline!.command!;
  const mounted = pipeline!.volumes!.find((v) => v.includes(`:${args[0]}:`))!.split(':')[0]!;
  const file = path.join('examples', mounted);
  const linted = await sluice(['lint', file, '--registry', scratch()]);
  expect([linted.code, linted.stderr]).toEqual([0, expect.any(String)]);
  const flags = COMMAND_TABLES.run!.flags.map((f) => `--${f.name}`);
  const given = args.slice(1).map((arg) => arg.split('=')[0]!);
  expect(given.filter((flag) => !flags.includes(flag))).toEqual([]);
  const { source, sink, dead_letter } = parse(readFileSync(file, 'utf8')) as Record<string, { topic: string }>;
  const created = /for TOPIC in (.*); do/.exec(topics!.command![0]!)![1]!.split(' ');
  expect(created).toEqual([source!.topic, sink!.topic, dead_letter!.topic]);
  const advertised = String(kafka!.environment!.KAFKA_ADVERTISED_LISTENERS);
  expect(advertised).toBe(`PLAINTEXT://${pipeline!.environment!.SLUICE_KAFKA_BROKERS}`);
});

/** Runs the setup script in `folder` instead of the volume, with this checkout instead of the image. */
function setUp(folder: string): void {
  const script = compose.services
    .setup!.command![0]!.replaceAll('$$', '$')
    .replaceAll(STATE, folder)
    .replace('node --disable-warning=ExperimentalWarning /app/dist/main.js', `"${process.execPath}" "${MAIN}"`);
  const { status, stderr } = spawnSync('sh', ['-ec', script], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, expect.any(String)]);
}

/** A configuration of the file with `folder` instead of the volume. */
const configIn = (name: string, folder: string): string => compose.configs[name]!.content.replaceAll(STATE, folder);

checkTestNeeding(
  ['bash'],
  'compose: setup prepares a service that Prometheus can scrape, and applications',
  async () => {
    const folder = scratch();
    setUp(folder);
    const token = (name: string) => readFileSync(path.join(folder, 'project', `${name}.token`), 'utf8').trim();
    const before = token('demo');
    setUp(folder);
    expect(token('demo')).toBe(before);

    const file = path.join(folder, 'sluice.yaml');
    writeFileSync(file, configIn('service', folder));
    const config = await loadConfig(ServerConfigSchema, { file });
    expect(compose.services.service!.ports).toEqual([`127.0.0.1:${config.listen.port}:${config.listen.port}`]);
    const { child, done } = start(['serve', '--config', file, '--port', '0']);
    onTestFinished(async () => {
      child.kill('SIGTERM');
      expect((await done).code).toBe(0);
    });
    let printed = '';
    child.stderr!.on('data', (text: string) => {
      printed += text;
    });
    await until(() => printed.includes('serving https://'));
    const port = Number(/https:\/\/[^:\s]+:(\d+)/.exec(printed)![1]);
    const scrape = await call(port, token('prometheus'), 'GET', '/metrics');
    expect([scrape.status, scrape.text.includes('sluice_ready 1')]).toEqual([200, true]);
    expect((await call(port, token('demo'), 'GET', '/api/v1/models')).status).toBe(200);

    const applications = path.join(folder, 'project', 'applications.ndjson');
    const scored = await sluice(['score', applications, '-m', 'credit-default', '--passthrough', 'application_id']);
    expect(scored.stderr).toContain('1,000 rows read = 997 scored + 3 rejected');
  },
);

checkTestNeeding(['promtool'], 'compose: promtool accepts the configuration of Prometheus', () => {
  const folder = scratch();
  setUp(folder);
  const rules = path.resolve('k8s/monitoring/rules.yaml');
  const file = path.join(folder, 'prometheus.yml');
  writeFileSync(file, configIn('prometheus', folder).replace('/etc/prometheus/rules.yaml', rules));
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'config', file], { encoding: 'utf8' });
  expect([status, stdout + stderr]).toEqual([0, expect.stringContaining('SUCCESS')]);
  const { scrape_configs } = parse(configIn('prometheus', folder)) as {
    scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[];
  };
  for (const { job_name, static_configs } of scrape_configs) {
    // Alerts select jobs by this name; targets are services of the file.
    expect(job_name).toContain('sluice');
    for (const target of static_configs.flatMap((s) => s.targets)) {
      expect(Object.keys(compose.services)).toContain(target.split(':')[0]);
    }
  }
});
