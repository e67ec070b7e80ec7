// Runs a program and says what it and everything it started took: CPU time, and the most memory of any one of them.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fieldsOfStat } from '../../src/core/processes.ts';

export interface ProcessCost {
  code: number | null;
  stdout: string;
  stderr: string;
  /** CPU seconds of all processes. */
  cpuSeconds: number;
  /** The most resident memory of one process, MB. */
  memoryMb: number;
  /** Seconds from the signal to the end; null without a signal. */
  stopSeconds: number | null;
}

const LOOK_MS = 25;
const TICKS = 100;

/** Fields of /proc/PID/stat from the state on. */
function statOf(pid: string): string[] | null {
  try {
    return fieldsOfStat(readFileSync(path.join('/proc', pid, 'stat'), 'utf8'));
  } catch {
    return null;
  }
}

/** `stopAt`: SIGTERM when the processes have taken so many CPU seconds. Linux only. */
export async function costOf(command: readonly string[], stopAt = Infinity): Promise<ProcessCost> {
  // A group of its own: whatever it starts can be found by it.
  const child = spawn(command[0]!, command.slice(1), { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const out = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out.stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    out.stderr += text;
  });
  const cpu = new Map<string, number>();
  let memoryMb = 0;
  let stopped: number | null = null;
  const look = (): void => {
    for (const pid of readdirSync('/proc')) {
      if (!/^\d+$/.test(pid)) continue;
      const stat = statOf(pid);
      if (stat?.[2] !== String(child.pid)) continue;
      cpu.set(pid, (Number(stat[11]) + Number(stat[12])) / TICKS);
      memoryMb = Math.max(memoryMb, (Number(stat[21]) * 4096) / 1e6);
    }
    const total = [...cpu.values()].reduce((a, b) => a + b, 0);
    if (stopped === null && total >= stopAt) {
      stopped = performance.now();
      child.kill('SIGTERM');
    }
  };
  const timer = setInterval(look, LOOK_MS);
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  clearInterval(timer);
  const stopSeconds = stopped === null ? null : (performance.now() - stopped) / 1000;
  return { ...out, code, cpuSeconds: [...cpu.values()].reduce((a, b) => a + b, 0), memoryMb, stopSeconds };
}
