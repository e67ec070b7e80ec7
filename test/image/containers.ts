// Images built by buildah and containers run by crun, as root, with everything they keep in a folder of their own.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isSource } from '../support/bundled-models.ts';
import { makeBase } from './base-image.ts';

const BASE = 'node:24-bookworm-slim';
const AUTHORITIES = '/etc/ssl/certs';
/** What the Dockerfile copies; the rest of the checkout is nothing to it, whatever lies about there. */
const CONTEXT = [
  ...[
    'Dockerfile',
    '.dockerignore',
    '.npmrc',
    'package.json',
    'package-lock.json',
    'tsconfig.json',
    'tsconfig.build.json',
  ],
  ...['src', 'tools', 'k8s'],
];

const npmSays = (...args: string[]): string => execFileSync('npm', args, { encoding: 'utf8' }).trim();

export class Images {
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'sluice-images-'));
  readonly #mounted: string[] = [];
  readonly context = path.join(this.#folder, 'context');

  constructor() {
    for (const name of CONTEXT) cpSync(name, path.join(this.context, name), { recursive: true, filter: isSource });
    const root = path.join(this.#folder, 'base');
    mkdirSync(root);
    makeBase(root);
    if (existsSync(AUTHORITIES))
      cpSync(AUTHORITIES, path.join(root, AUTHORITIES), { recursive: true, dereference: true });
    const container = this.buildah('from', 'scratch');
    this.buildah('add', '-q', container, root, '/');
    // Settings of this machine's npm: what its `npm ci` has fetched is not fetched again.
    const settings = ['prefer_offline=true', 'cache=/npm-cache', `registry=${npmSays('config', 'get', 'registry')}`];
    const env = [
      'PATH=/usr/local/bin:/usr/bin:/bin',
      `NODE_EXTRA_CA_CERTS=${AUTHORITIES}/ca-certificates.crt`,
      ...settings.map((s) => `npm_config_${s}`),
    ];
    this.buildah('config', ...env.flatMap((e) => ['--env', e]), container);
    this.buildah('commit', '-q', '--rm', container, BASE);
    rmSync(root, { recursive: true });
  }

  buildah(...args: string[]): string {
    const kept = ['--root', path.join(this.#folder, 'storage'), '--runroot', path.join(this.#folder, 'run')];
    return execFileSync('buildah', [...kept, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  }

  /** Builds the Dockerfile. @returns digests of the layers, those of the base first */
  build(name: string): string[] {
    const cache = `${npmSays('config', 'get', 'cache')}:/npm-cache`;
    const how = ['--isolation', 'chroot', '--pull-never', '--format', 'docker', '--timestamp', '0', '-v', cache];
    this.buildah('bud', '-q', ...how, '-t', name, this.context);
    return this.settings(name).rootfs.diff_ids;
  }

  /** What the image says of itself. */
  settings(name: string): ImageSettings {
    return JSON.parse(this.buildah('inspect', '--type', 'image', `localhost/${name}`)).Docker;
  }

  /** The files of an image in a folder. */
  mount(name: string): string {
    const container = this.buildah('from', '--pull-never', `localhost/${name}`);
    this.#mounted.push(container);
    return this.buildah('mount', container);
  }

  remove(): void {
    for (const container of this.#mounted) this.buildah('rm', container);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export interface ImageSettings {
  rootfs: { diff_ids: string[] };
  config: {
    User: string;
    WorkingDir: string;
    Env: string[];
    Entrypoint: string[];
    Cmd: string[];
    Healthcheck: { Test: string[] };
  };
}

/** A container as a strict cluster runs it: read-only root, uid 1000, no capability, a process namespace of its own. */
export class Container {
  readonly #bundle = mkdtempSync(path.join(tmpdir(), 'sluice-container-'));
  readonly process: ChildProcess;
  readonly exit: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  words = '';

  /** `etc`: a folder that is mounted as /etc/sluice; /tmp and /var/lib/sluice can be written. */
  constructor(root: string, { config }: ImageSettings, etc: string) {
    chmodSync(this.#bundle, 0o755);
    execFileSync('crun', ['spec'], { cwd: this.#bundle });
    const file = path.join(this.#bundle, 'config.json');
    const spec = JSON.parse(readFileSync(file, 'utf8'));
    const writable = (destination: string) => ({
      destination,
      type: 'tmpfs',
      source: 'tmpfs',
      options: ['nosuid', 'nodev', 'mode=1777'],
    });
    const mounts = spec.mounts.filter((m: { type: string }) => ['proc', 'tmpfs', 'devpts'].includes(m.type));
    const own = ['network', 'cgroup'];
    const strict = {
      ...spec,
      root: { path: root, readonly: true },
      process: {
        ...spec.process,
        terminal: false,
        user: { uid: 1000, gid: 1000 },
        args: [...config.Entrypoint, ...config.Cmd],
        cwd: config.WorkingDir,
        env: [...config.Env, 'HOME=/home/node'],
        capabilities: Object.fromEntries(Object.keys(spec.process.capabilities).map((set) => [set, []])),
        rlimits: [],
        noNewPrivileges: true,
      },
      mounts: [
        ...mounts,
        writable('/tmp'),
        writable('/var/lib/sluice'),
        { destination: '/etc/sluice', type: 'bind', source: etc, options: ['rbind', 'ro'] },
      ],
      // The network is that of the machine, so that somebody can ask.
      linux: {
        ...spec.linux,
        namespaces: spec.linux.namespaces.filter((n: { type: string }) => !own.includes(n.type)),
      },
    };
    writeFileSync(file, JSON.stringify(strict));
    this.process = spawn(...this.#crun('run', '--bundle', this.#bundle, 'sluice'));
    for (const stream of [this.process.stdout!, this.process.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.words += text;
      });
    }
    this.exit = new Promise((resolve) => this.process.once('exit', (code, signal) => resolve({ code, signal })));
  }

  /** crun wants control groups of version 2, which this process alone gets to see. */
  #crun(...args: string[]): [string, string[]] {
    const see = 'umount -l /sys/fs/cgroup 2>/dev/null; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"';
    const crun = ['crun', '--root', path.join(this.#bundle, 'state'), '--cgroup-manager=disabled'];
    return ['unshare', ['-m', 'sh', '-c', see, 'sh', ...crun, ...args]];
  }

  /** Runs a command inside. @throws Error where it does not end with 0 */
  exec(...words: string[]): string {
    const [file, args] = this.#crun('exec', '--user', '1000:1000', '--cwd', '/app', 'sluice', ...words);
    return execFileSync(file, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }

  /** Sends a signal to the process that is number 1 inside. */
  signal(name: string): void {
    const [file, args] = this.#crun('kill', 'sluice', name);
    execFileSync(file, args);
  }

  remove(): void {
    this.process.kill('SIGKILL');
    try {
      const [file, args] = this.#crun('delete', '--force', 'sluice');
      execFileSync(file, args, { stdio: 'ignore' });
    } catch {
      // It has ended and is gone.
    }
    rmSync(this.#bundle, { recursive: true, force: true });
  }
}
