// Programs of others that some tests run, and what to install where one is missing: such a test is skipped by name.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { type TestFunction, test } from 'vitest';
import { isDebian } from '../image/base-image.ts';
import { chromiumProgram } from './browser.ts';
import { campaignTest, IN_CHECK, SKIPPED, TIER } from './tiers.ts';

interface Tool {
  install: string;
  found(): boolean;
}

/** Whether it can be started; what it says of these arguments does not matter. */
const starts = (command: string, ...args: string[]) => !spawnSync(command, args, { stdio: 'ignore' }).error;
const succeeds = (command: string, ...args: string[]) => spawnSync(command, args, { stdio: 'ignore' }).status === 0;

/** On the path, or where `go install` puts it. */
export function goProgram(name: string): string {
  const { GOBIN, GOPATH = path.join(homedir(), 'go') } = process.env;
  const installed = path.join(GOBIN ?? path.join(GOPATH, 'bin'), name);
  return existsSync(installed) ? installed : name;
}

const MIN_JAVA = 17;

const TOOLS = {
  bash: { install: 'apt-get install bash', found: () => starts('bash', '--version') },
  setpriv: { install: 'apt-get install util-linux', found: () => starts('setpriv', '--version') },
  sha256sum: { install: 'apt-get install coreutils', found: () => starts('sha256sum', '--version') },
  mkfifo: { install: 'apt-get install coreutils', found: () => starts('mkfifo', '--version') },
  curl: { install: 'apt-get install curl', found: () => starts('curl', '--version') },
  Chromium: {
    install: 'apt-get install chromium-headless-shell, or set SLUICE_CHROMIUM',
    found: () => chromiumProgram() !== null,
  },
  nginx: { install: 'apt-get install nginx-light', found: () => starts('nginx', '-v') },
  HAProxy: { install: 'apt-get install haproxy', found: () => starts('haproxy', '-v') },
  'Python 3': { install: 'apt-get install python3', found: () => starts('python3', '--version') },
  'Python 3 with requests': {
    install: 'apt-get install python3-requests',
    found: () => succeeds('python3', '-c', 'import requests'),
  },
  'Python 3 with httpx': {
    install: 'apt-get install python3-httpx',
    found: () => succeeds('python3', '-c', 'import httpx'),
  },
  'Python 3 with scikit-learn': {
    install: 'pip install scikit-learn',
    found: () => succeeds('python3', '-c', 'import sklearn'),
  },
  'Python 3 with evidently': {
    install: 'pip install evidently==0.7.23 pandas==2.3.3',
    found: () => succeeds('python3', '-c', 'import evidently.legacy.calculations.stattests.psi'),
  },
  Go: { install: 'apt-get install golang-go', found: () => succeeds('go', 'version') },
  'a Java compiler': {
    install: 'apt-get install openjdk-17-jdk-headless',
    found: () => (spawnSync('java', ['--list-modules'], { encoding: 'utf8' }).stdout ?? '').includes('jdk.compiler'),
  },
  'Python 3 with venv': {
    install: 'apt-get install python3-venv',
    found: () => succeeds('python3', '-c', 'import venv, ensurepip'),
  },
  'Java 17 or newer': {
    install: 'apt-get install openjdk-17-jre-headless',
    found: () => {
      const words = spawnSync('java', ['-version'], { encoding: 'utf8' }).stderr ?? '';
      return Number(/version "(\d+)/.exec(words)?.[1] ?? 0) >= MIN_JAVA;
    },
  },
  fish: { install: 'apt-get install fish', found: () => starts('fish', '--version') },
  zsh: { install: 'apt-get install zsh', found: () => starts('zsh', '--version') },
  'systemd-analyze': { install: 'apt-get install systemd', found: () => starts('systemd-analyze', '--version') },
  buildah: { install: 'apt-get install buildah', found: () => starts('buildah', '--version') },
  crun: { install: 'apt-get install crun', found: () => starts('crun', '--version') },
  Debian: { install: 'a machine with Debian', found: isDebian },
  openssl: { install: 'apt-get install openssl', found: () => starts('openssl', 'version') },
  wabt: { install: 'apt-get install wabt', found: () => starts('wat2wasm', '--version') },
  'unshare as root': {
    install: 'apt-get install util-linux, and run as root',
    found: () => succeeds('unshare', '-pf', '--mount-proc', 'true'),
  },
  promtool: { install: 'apt-get install prometheus', found: () => starts('promtool', '--version') },
  Prometheus: { install: 'apt-get install prometheus', found: () => starts('prometheus', '--version') },
  Alertmanager: {
    install: 'apt-get install prometheus-alertmanager',
    found: () => starts('prometheus-alertmanager', '--version'),
  },
  'Prometheus push gateway': {
    install: 'apt-get install prometheus-pushgateway',
    found: () => starts('prometheus-pushgateway', '--version'),
  },
  'Prometheus node exporter': {
    install: 'apt-get install prometheus-node-exporter',
    found: () => starts('prometheus-node-exporter', '--version'),
  },
  versitygw: {
    install: 'go install github.com/versity/versitygw/cmd/versitygw@v1.8.0',
    found: () => starts(goProgram('versitygw'), '--version'),
  },
  'fake-gcs-server': {
    install: 'go install github.com/fsouza/fake-gcs-server@v1.56.1',
    found: () => starts(goProgram('fake-gcs-server'), '-version'),
  },
  kustomize: {
    install: 'go install sigs.k8s.io/kustomize/kustomize/v5@v5.7.1',
    found: () => starts(goProgram('kustomize'), 'version'),
  },
  Maven: { install: 'apt-get install maven', found: () => starts('mvn', '-version') },
} as const satisfies Record<string, Tool>;

export type ToolName = keyof typeof TOOLS;

/** What is missing and how it is installed; null: nothing is. */
export function missingTools(...names: ToolName[]): string | null {
  const gone = names.filter((name) => !TOOLS[name].found());
  return gone.length === 0 ? null : gone.map((name) => `${name} (${TOOLS[name].install})`).join(' and ');
}

/** Programs of monitoring: SLUICE_REQUIRE=prometheus turns a missing one into an error. */
const OF_MONITORING: readonly ToolName[] = [
  'promtool',
  'Prometheus',
  'Alertmanager',
  'Prometheus push gateway',
  'Prometheus node exporter',
];

/** Whether `SLUICE_REQUIRE`, a comma-separated list, names the component: tests that need it fail where it is missing. */
export const isRequired = (component: 'kafka' | 'postgres' | 'prometheus' | 'registries'): boolean =>
  (process.env.SLUICE_REQUIRE ?? '').split(',').includes(component);

/** `test` for what needs these programs. */
export function testNeeding(names: readonly ToolName[], name: string, run: TestFunction): void {
  const missing = missingTools(...names);
  if (missing !== null && isRequired('prometheus') && names.some((n) => OF_MONITORING.includes(n))) {
    throw new Error(`${name}: needs ${missing}`);
  }
  if (missing === null) test(name, run);
  else test.skip(`${name}${SKIPPED}needs ${missing}`, run);
}

/** The same for what takes long and is left out of `npm test`. */
export function checkTestNeeding(names: readonly ToolName[], name: string, run: TestFunction): void {
  if (TIER === 'quick') test.skip(`${name}${SKIPPED}${IN_CHECK}`, run);
  else testNeeding(names, name, run);
}

/** The same for what only the campaigns do. */
export function campaignTestNeeding(names: readonly ToolName[], name: string, run: TestFunction): void {
  if (TIER === 'campaigns') testNeeding(names, name, run);
  else campaignTest(name, run);
}
