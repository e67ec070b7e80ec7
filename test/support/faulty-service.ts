// The service as a process of its own whose disk fails when a test wants it to.
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { copyBundled } from './bundled-models.ts';
import { MAIN, scratch } from './cli.ts';
import { startOtlpReceiver } from './otlp-receiver.ts';
import { until } from './until.ts';

/** Of the log. */
type Line = Record<string, unknown> & { event: string; level: string };

/** The service as a process whose file system fails when it is told to. */
export async function startFaulty() {
  const folder = scratch();
  mkdirSync(path.join(folder, 'spill'));
  copyBundled(path.join(folder, 'models'));
  const collector = await startOtlpReceiver();
  const args = ['--import', path.resolve('test/support/fault-preload.mjs'), MAIN, 'serve', '--dev', '--port', '0', '--registry', path.join(folder, 'models'), '--set', 'workers=1', `jobs.folder=${folder}/jobs`, `spill.folder=${folder}/spill`, `tracing.otlp_endpoint=${collector.endpoint}`]; // biome-ignore format: one line
  const env = { ...process.env, SLUICE_LOG_FORMAT: 'json', FAULT_FOLDER: folder, FAULT_IPC: '1' };
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let words = '';
  let fired = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    words += text;
  });
  child.on('message', (message: { fired: string }) => {
    fired = message.fired;
  });
  const lines = (): Line[] => words.slice(0, words.lastIndexOf('\n') + 1).split('\n').filter((l) => l !== '').map((l) => JSON.parse(l)); // biome-ignore format: one line
  await until(() => words.includes('"dev_key"'));
  const found = (event: string) => lines().find((l) => l.event === event)!;
  return {
    folder,
    port: Number(new URL(String(found('service_started').url)).port),
    token: String(found('dev_key').key),
    lines,
    words: () => words,
    collector,
    plant: (at: number, how: string) => {
      fired = '';
      child.send({ at, how });
    },
    fired: () => fired,
    stop: () => {
      child.kill('SIGTERM');
      return ended;
    },
    alive: () => child.exitCode === null && child.signalCode === null,
  };
}

export type Faulty = Awaited<ReturnType<typeof startFaulty>>;
