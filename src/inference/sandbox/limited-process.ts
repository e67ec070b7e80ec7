// Runs code that cannot be interrupted, such as ONNX Runtime, in a process with limits of memory and CPU time. If the
// process exceeds a limit, it is killed from outside. A thread would not do, because terminating a thread inside native
// code ends the whole process.
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { monotonicMs, startInterval, stopTimer } from '../../core/clock.ts';
import { fieldsOfStat } from '../../core/processes.ts';

const MB = 1024 * 1024;

interface ProcessLimits {
  /** Maximum JavaScript heap in MB. */
  heapMb: number;
  /** Maximum memory of the process in bytes. */
  memoryBytes: number;
  /**
   * Maximum CPU time over the whole life of the process in seconds; null for no limit, as for a process that serves
   * requests.
   */
  cpuSeconds: number | null;
  /** Additional flags for Node. */
  flags?: readonly string[];
}

/**
 * Limits for validating or serving a model of this size. The limits suffice for all known models, and bound the damage
 * that malicious models can do.
 */
export const limitsFor = (modelBytes: number): { memoryBytes: number; openCpuSeconds: number } => ({
  memoryBytes: 512 * MB + 16 * modelBytes,
  openCpuSeconds: 5 + (2 * modelBytes) / MB,
});

/**
 * Node cannot set the limits itself, so a shell sets them before Node starts. RLIMIT_DATA also counts memory that is
 * reserved for writing. The memory that Node reserves without using it is therefore added to the limit. If setpriv
 * supports this, the process is killed when its parent ends. The inner shell checks that the parent has not ended
 * already.
 */
const SHELL = `ulimit -d "$1" 2>/dev/null
[ -z "$2" ] || ulimit -t "$2" 2>/dev/null
parent=$3
shift 3
if setpriv --pdeathsig KILL -- true 2>/dev/null; then
  exec setpriv --pdeathsig KILL -- /bin/sh -c '[ "$PPID" = "$0" ] && exec "$@"' "$parent" "$@"
fi
exec "$@"`;

const living = new Set<ChildProcess>();
let watchesExit = false;

/**
 * Starts a file of the program as a process. The only connection to the process is an IPC channel; its standard streams
 * are ignored.
 */
export function startLimited(entry: URL, limits: ProcessLimits): ChildProcess {
  // Without this, an endless loop would continue to run if a signal ends the parent immediately.
  if (!watchesExit) process.on('exit', killAll);
  watchesExit = true;
  const flags = [
    `--max-old-space-size=${limits.heapMb}`,
    '--disable-warning=ExperimentalWarning',
    ...(limits.flags ?? []),
  ];
  const child = process.platform === 'linux' ? underShell(entry, flags, limits) : plain(entry, flags);
  living.add(child);
  child.once('exit', () => living.delete(child));
  child.once('error', () => living.delete(child));
  return child;
}

function killAll(): void {
  for (const child of living) child.kill('SIGKILL');
}

function underShell(entry: URL, flags: readonly string[], { memoryBytes, cpuSeconds }: ProcessLimits): ChildProcess {
  const dataKb = Math.ceil((memoryBytes + reservedBytes()) / 1024);
  const node = [process.execPath, ...flags, fileURLToPath(entry)];
  return spawn(
    '/bin/sh',
    [
      '-c',
      SHELL,
      'sh',
      String(dataKb),
      cpuSeconds === null ? '' : String(Math.ceil(cpuSeconds)),
      `${process.pid}`,
      ...node,
    ],
    {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    },
  );
}

const plain = (entry: URL, execArgv: string[]): ChildProcess =>
  fork(entry, { serialization: 'advanced', stdio: ['ignore', 'ignore', 'ignore', 'ipc'], execArgv });

const LEAST_RESERVED = 560 * MB;
const MOST_RESERVED = 900 * MB;

/**
 * Number of bytes that a process of this Node version reserves for writing without using them. Measured in this
 * process.
 */
function reservedBytes(): number {
  const status = statusOf('self');
  const reserved = (kilobytesOf(status, 'VmData') - kilobytesOf(status, 'RssAnon')) * 1024;
  return Math.min(MOST_RESERVED, Math.max(LEAST_RESERVED, reserved));
}

const kilobytesOf = (status: string, name: string): number =>
  Number(status.split(`${name}:`)[1]?.trim().split(' ', 1)[0] ?? 0);

function statusOf(pid: number | 'self'): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return '';
  }
}

export interface Usage {
  cpuSeconds: number;
  residentBytes: number;
  /** Maximum resident memory so far in bytes. */
  peakBytes: number;
}

/** Clock ticks per second in /proc. The value is the same on every Linux that Node supports. */
const TICKS = 100;
const PAGE_BYTES = 4096;

/** Resource usage of a process; null if not available. */
export function usageOf(pid: number): Usage | null {
  try {
    const fields = fieldsOfStat(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    const [user, system, pages] = [fields[11], fields[12], fields[21]].map(Number) as [number, number, number];
    const peakBytes = kilobytesOf(statusOf(pid), 'VmHWM') * 1024;
    return { cpuSeconds: (user + system) / TICKS, residentBytes: pages * PAGE_BYTES, peakBytes };
  } catch {
    return null;
  }
}

const LOOK_MS = 100;
/**
 * A process that uses no CPU time for this many seconds counts as hung. Also applies if CPU time cannot be measured.
 */
const IDLE_SECONDS = 120;

export interface Watch {
  /** Stops watching. */
  stop(): void;
}

/**
 * Kills the process if, from now on, it uses more than `cpuSeconds` of CPU time, or if it uses too much memory. Time
 * spent waiting for a busy machine does not count. `onOver` receives the reason.
 */
export function watchUsage(
  child: ChildProcess,
  { cpuSeconds, memoryBytes }: { cpuSeconds: number; memoryBytes: number },
  onOver: (reason: string) => void,
): Watch {
  const before = usageOf(child.pid!)?.cpuSeconds ?? 0;
  let last = { cpu: 0, at: monotonicMs() };
  const look = (): void => {
    const usage = usageOf(child.pid!);
    const cpu = (usage?.cpuSeconds ?? 0) - before;
    if (cpu > last.cpu) last = { cpu, at: monotonicMs() };
    const tooLong = cpu > cpuSeconds || monotonicMs() - last.at > IDLE_SECONDS * 1000;
    const tooMuch = (usage?.residentBytes ?? 0) > memoryBytes * 1.25;
    if (!tooLong && !tooMuch) return;
    stopTimer(timer);
    child.kill('SIGKILL');
    onOver(
      tooMuch
        ? `ONNX Runtime needs more than ${Math.round(memoryBytes / MB)} MB for this model`
        : `ONNX Runtime did not finish with this model within ${Math.ceil(cpuSeconds)} s of CPU time`,
    );
  };
  const timer = startInterval(look, LOOK_MS);
  timer.unref();
  return { stop: () => stopTimer(timer) };
}
