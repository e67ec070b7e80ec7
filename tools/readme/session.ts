// Commands of the README, run for real: their output is recorded, and compared with what the page shows.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../..');

/** Without settings of this machine. */
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_')));

/** The session in the picture. */
export const RECORDED = [
  'npx sluice generate --rows 1000000 --faults 3 --ids -o portfolio.csv',
  'npx sluice score portfolio.csv --model credit-default --passthrough application_id -o scored.csv',
  'head -n 4 scored.csv',
  'cut -d, -f 3,5- scored.csv.rejects.csv',
  'npx sluice verify scored.csv --input portfolio.csv',
] as const;

export class Session {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'sluice-readme-'));
  readonly #programs = mkdtempSync(path.join(tmpdir(), 'sluice-npx-'));
  readonly #environment: NodeJS.ProcessEnv = {
    ...ENVIRONMENT,
    PATH: `${this.#programs}${path.delimiter}${ENVIRONMENT.PATH}`,
  };

  constructor() {
    // A program and not a function of bash, so that signals reach the process that `npx … &` started.
    const main = process.env.SLUICE_TEST_MAIN ?? path.join(ROOT, 'src/main.ts');
    const program = `exec "${process.execPath}" "${main}" "$@"`;
    const scripts = { npx: `shift\n${program}`, sluice: program };
    for (const [name, script] of Object.entries(scripts)) {
      writeFileSync(path.join(this.#programs, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    }
  }

  /** Runs a command line of bash with this checkout as `npx sluice` and `sluice`. Standard output and error as they appear. */
  run(command: string): string {
    const { stdout } = spawnSync('bash', shell(command), {
      cwd: this.folder,
      encoding: 'utf8',
      env: this.#environment,
    });
    return stdout;
  }

  /** As `run`, without blocking this process, so that it can serve requests of the command. */
  async runAsync(command: string): Promise<string> {
    const stdio = ['ignore', 'pipe', 'inherit'] as const;
    const child = spawn('bash', shell(command), { cwd: this.folder, env: this.#environment, stdio: [...stdio] });
    const parts: Buffer[] = [];
    for await (const part of child.stdout) parts.push(part as Buffer);
    return Buffer.concat(parts).toString();
  }

  close(): void {
    for (const folder of [this.folder, this.#programs]) rmSync(folder, { recursive: true, force: true });
  }
}

const shell = (command: string): string[] => ['-c', `{ ${command}\n} 2>&1`];

/** Slow runs print lines of progress. */
export const withoutProgress = (text: string): string => text.replaceAll(/^[\d,]+ rows, .*\n/gm, '');

/** What differs between two runs of one command: times, rates, memory. */
export const masked = (text: string): string =>
  withoutProgress(text)
    .replaceAll(/[\d,.]+ (s|rows\/s|ms)\b/g, '# $1')
    .replaceAll(/peak memory \d+ MB/g, 'peak memory # MB')
    .replaceAll(/\d+ workers?/g, '# workers')
    .trimEnd();
