// Progress of a run for people: a line that is updated in place in a terminal, otherwise a plain line every ten
// seconds.
import { monotonicMs, startInterval, stopTimer, type Timer } from '../core/clock.ts';
import type { ExplainedProgress } from '../core/explained-work.ts';

interface ProgressState {
  rows: number;
  rejected: number;
  bytesRead: number;
  totalBytes: number | null;
  /** Progress of the effects. Absent or null if effects were not requested, or none were computed yet. */
  explained?: ExplainedProgress | null | undefined;
}

const LIVE_MS = 200;
const QUIET_MS = 10_000;

export class Progress {
  readonly #out: NodeJS.WriteStream;
  readonly #state: () => ProgressState;
  readonly #began = monotonicMs();
  readonly #timer: Timer;

  /** Polls `state` until `stop` is called. Call `stop` before anything else is written to `out`. */
  constructor(out: NodeJS.WriteStream, state: () => ProgressState) {
    this.#out = out;
    this.#state = state;
    const live = out.isTTY === true;
    this.#timer = startInterval(() => this.#show(live), live ? LIVE_MS : QUIET_MS);
    this.#timer.unref();
  }

  stop(): void {
    stopTimer(this.#timer);
    if (this.#out.isTTY) this.#out.write('\r\x1b[K');
  }

  #show(live: boolean): void {
    const text = progressLine(this.#state(), (monotonicMs() - this.#began) / 1000);
    this.#out.write(live ? `\r\x1b[K${text.slice(0, (this.#out.columns ?? 80) - 1)}` : `${text}\n`);
  }
}

/** Example: `1,234,567 rows, 250,000 rows/s, 2 rejected, 41 %, 0:12 left` */
export function progressLine(s: ProgressState, seconds: number): string {
  if (s.explained) return explainedLine(s.explained, s.rejected, seconds);
  const rate = seconds > 0 ? s.rows / seconds : 0;
  const parts = [`${count(s.rows)} rows`, `${count(Math.round(rate))} rows/s`];
  if (s.rejected > 0) parts.push(`${count(s.rejected)} rejected`);
  if (s.totalBytes !== null && s.totalBytes > 0 && s.bytesRead > 0) {
    const part = Math.min(1, s.bytesRead / s.totalBytes);
    parts.push(`${Math.floor(part * 100)} %`, `${clock((seconds / part) * (1 - part))} left`);
  }
  return parts.join(', ');
}

/** Example: `1,234 of 5,000 rows explained, 24.5 rows/s, 25,501 evaluations/row, 24 %, 2:33 left` */
function explainedLine(e: ExplainedProgress, rejected: number, seconds: number): string {
  const rate = seconds > 0 ? e.rows / seconds : 0;
  const parts = [`${count(Math.floor(e.rows))} of ${count(e.totalRows)} rows explained`];
  parts.push(`${rate < 100 ? rate.toFixed(1) : count(Math.round(rate))} rows/s`);
  if (e.evaluations > 0) parts.push(`${count(Math.round(e.evaluations / Math.max(e.rows, 1e-9)))} evaluations/row`);
  if (rejected > 0) parts.push(`${count(rejected)} rejected`);
  parts.push(`${Math.floor(e.share * 100)} %`);
  if (e.secondsLeft !== null) parts.push(`${clock(e.secondsLeft)} left`);
  return parts.join(', ');
}

/** Formats a whole number with thousands separators. Intl is not used, because its first call would take 25 ms. */
export function count(n: number): string {
  let text = String(Math.abs(n));
  for (let at = text.length - 3; at > 0; at -= 3) text = `${text.slice(0, at)},${text.slice(at)}`;
  return n < 0 ? `-${text}` : text;
}

/** Formats seconds as m:ss or h:mm:ss. */
export function clock(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  const two = (n: number) => String(n).padStart(2, '0');
  const h = Math.floor(s / 3600);
  return h > 0 ? `${h}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}
