// A process for code that cannot be interrupted, such as ONNX Runtime: within limits of memory and CPU time, and killed from
// outside where it exceeds them. Only a process can be: a thread that is ended inside native code takes all others along.
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { monotonicMs, startInterval, stopTimer } from '../../core/clock.ts';
import { fieldsOfStat } from '../../core/processes.ts';

const MB = 1024 * 1024;

interface ProcessLimits {
  /** Heap of JavaScript, MB. */
  heapMb: number;
  /** Bytes the process may use. */
  memoryBytes: number;
  /** Seconds of CPU time the process may take in its whole life; null: no limit, for a process that serves. */
  cpuSeconds: number | null;
  /** Further flags of Node. */
  flags?: readonly string[];
}

/** Limits for validating or serving a model of this many bytes: generous for all known models, small for malicious ones. */
export const limitsFor = (modelBytes: number): { memoryBytes: number; openCpuSeconds: number } => ({
  memoryBytes: 512 * MB + 16 * modelBytes,
  openCpuSeconds: 5 + (2 * modelBytes) / MB,
});

/**
 * A shell sets the limits before Node starts, because Node cannot set them. RLIMIT_DATA counts memory reserved for
 * writing, so the memory that Node reserves and never touches is added. With a suitable setpriv the process does not
 * outlive its parent; the inner shell checks that the parent had not ended before.
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

/** Starts a file of the program with an IPC channel; it hears nothing else and says nothing else. */
export function startLimited(entry: URL, limits: ProcessLimits): ChildProcess {
  // Without these lines a signal that ends the parent at once would leave an endless loop behind.
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

/** Bytes that a process of this Node reserves for writing without using them: what this one does. */
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
  /** The most that was resident so far. */
  peakBytes: number;
}

/** Clock ticks a second in /proc: the same on every Linux that Node runs on. */
const TICKS = 100;
const PAGE_BYTES = 4096;

/** What a process has used; null where that cannot be asked. */
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
/** Seconds without any CPU time after which a process waits for what never comes; also where CPU time cannot be asked for. */
const IDLE_SECONDS = 120;

export interface Watch {
  /** Ends the watching. */
  stop(): void;
}

/**
 * Kills the process when it takes more than `cpuSeconds` from now on, or more memory than it may: time that it waits for a
 * busy machine does not count. `onOver` gets the reason.
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
