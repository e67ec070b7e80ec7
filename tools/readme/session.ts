// Commands of the README, run for real: their output is recorded, and compared with what the page shows.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
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

  /** Runs a command line of bash with this checkout as `npx sluice`. Standard output and error as they appear. */
  run(command: string): string {
    const { stdout } = spawnSync('bash', this.#arguments(command), {
      cwd: this.folder,
      encoding: 'utf8',
      env: ENVIRONMENT,
    });
    return stdout;
  }

  /** As `run`, without blocking this process, so that it can serve requests of the command. */
  async runAsync(command: string): Promise<string> {
    const child = spawn('bash', this.#arguments(command), { cwd: this.folder, env: ENVIRONMENT });
    const parts: Buffer[] = [];
    for await (const part of child.stdout) parts.push(part as Buffer);
    return Buffer.concat(parts).toString();
  }

  #arguments(command: string): string[] {
    const script = `npx() { shift; "${process.execPath}" "${ROOT}/src/main.ts" "$@"; }; ${command}`;
    return ['-c', `{ ${script}\n} 2>&1`];
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Slow runs print lines of progress. */
export const withoutProgress = (text: string): string => text.replaceAll(/^[\d,]+ rows, .*\n/gm, '');

/** What differs between two runs of one command: times, rates, memory. */
export const masked = (text: string): string =>
  withoutProgress(text)
    .replaceAll(/[\d,.]+ (s|rows\/s|ms)\b/g, '# $1')
    .replaceAll(/peak memory \d+ MB/g, 'peak memory # MB')
    .replaceAll(/\d+ workers?/g, '# workers')
    .trimEnd();
