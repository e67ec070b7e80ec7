// Times in rules: as they stand in production, or divided, so that a drill sees in a minute what takes an hour.

/** A time as Prometheus writes it: 5m. */
export type Span = `${number}${'s' | 'm' | 'h' | 'd'}`;

const SECONDS_OF = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** How many seconds a time is. */
export function secondsOf(span: Span): number {
  const unit = span.at(-1) as keyof typeof SECONDS_OF;
  return Number(span.slice(0, -1)) * SECONDS_OF[unit];
}

/**
 * Windows and thresholds of rules. What belongs to the calendar (an expiry, a nightly run) is written as a number of
 * seconds by `secondsOf` instead, because it does not pass faster in a drill.
 */
export class Times {
  readonly #divisor: number;

  /** `divisor`: 1 in production; 60 makes a second of a minute. */
  constructor(divisor = 1) {
    this.#divisor = divisor;
  }

  /** A window, an offset or a `for`. */
  span(span: Span): Span {
    return this.#divisor === 1 ? span : `${Math.max(1, Math.round(this.seconds(span)))}s`;
  }

  /** The same as a number of seconds to compare with. */
  seconds(span: Span): number {
    return secondsOf(span) / this.#divisor;
  }
}
