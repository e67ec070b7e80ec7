// One thing goes wrong under load, watched by a real Prometheus and told through a real Alertmanager: which alerts reach the webhook?
import { setTimeout as sleep } from 'node:timers/promises';
import { PATIENCE_MS } from './patience.ts';
import type { Watch } from './prometheus.ts';

/** Times of the rules are divided by this: a minute is a second. */
export const DRILL_DIVISOR = 60;
/** The same for what has to raise no alert at all: a scrape may take 3 s, so that a busy machine does not look like one that is down. */
export const HEALTHY_DIVISOR = 20;
/** After the alert others have so long to come, and must not: longer than any `for`. */
const SETTLED_MS = 20_000;

/** A round that takes longer is of something that hangs. */
const STUCK_MS = 3000;

/** Repeats `work` until the end of the scope; what fails meanwhile is what the drill is about. */
export class Load implements AsyncDisposable {
  #on = true;
  readonly #done: Promise<void>;
  /** Rounds that were done. */
  rounds = 0;

  constructor(work: (round: number) => Promise<unknown>, everyMs = 200) {
    this.#done = this.#go(work, everyMs);
  }

  async #go(work: (round: number) => Promise<unknown>, everyMs: number): Promise<void> {
    while (this.#on) {
      const due = performance.now() + everyMs;
      await work(this.rounds++).catch(() => {});
      await sleep(Math.max(1, due - performance.now()));
    }
  }

  /** No further round; the one in hand may go on for as long as it likes. */
  stop(): void {
    this.#on = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    // Not for ever: a request to a process that hangs ends when that is killed.
    await Promise.race([this.#done, sleep(STUCK_MS)]);
  }
}

/** Resolves when the webhook was told of all of these. @throws Error with what was told instead */
export async function toldOf(watch: Watch, alerts: readonly string[]): Promise<void> {
  for (const end = Date.now() + PATIENCE_MS; ; await sleep(200)) {
    const firing = watch.firing();
    if (alerts.every((name) => firing.includes(name))) return;
    if (Date.now() > end) {
      const pending = (await watch.query('ALERTS')).map((s) => `${s.metric.alertname} ${s.metric.alertstate}`);
      throw new Error(`not told of ${alerts}; firing: ${firing}; Prometheus: ${pending}\n${watch.log()}`);
    }
  }
}

/** What is firing when everything that follows has followed. */
export async function settled(watch: Watch, ms = SETTLED_MS): Promise<string[]> {
  await sleep(ms);
  const seen = new Set(watch.told.map((t) => t.alert));
  for (const told of watch.told) {
    if (told.annotations.summary?.includes('<error')) throw new Error(`${told.alert}: ${told.annotations.summary}`);
  }
  return [...seen].sort();
}

/** Resolves when everything is scraped and was for some time, so that counters are known from before. */
export async function watched(watch: Watch): Promise<void> {
  const last = (scrapes: number): string => `up[${scrapes * watch.interval}s]`;
  const expr = `min(min_over_time(${last(5)})) == 1 and min(count_over_time(${last(8)})) > 5`;
  for (const end = Date.now() + PATIENCE_MS; ; await sleep(200)) {
    const up = await watch.query(expr);
    if (up.length > 0) return;
    if (Date.now() > end) throw new Error(`not scraped: ${JSON.stringify(await watch.unscraped())}`);
  }
}

/** @throws Error if after this time a rule failed, a target is not scraped, or an alert was pending or firing at any evaluation */
export async function quietFor(watches: readonly Watch[], ms: number): Promise<void> {
  await sleep(ms);
  for (const watch of watches) {
    const found = { unscraped: await watch.unscraped(), failed: await watch.sickRules(), raised: await watch.raised() };
    if (Object.values(found).some((one) => Object.keys(one).length > 0)) throw new Error(JSON.stringify(found));
  }
}
