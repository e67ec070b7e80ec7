// The W3C trace context of requests, jobs and records, the interface of tracers, and a sampler for log lines and spans.
import { monotonicMs } from './clock.ts';
import type { LogFields, Word } from './log.ts';

/** A trace context; see https://www.w3.org/TR/trace-context/. */
export interface TraceParent {
  /** 32 hexadecimal digits. */
  traceId: Word;
  /** 16 hexadecimal digits: the parent span of the current work. */
  spanId: Word;
  sampled: boolean;
}

export const TRACE_HEADER = 'traceparent';

/** Later versions of the format may append fields. Version `ff` is invalid. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/** Parses a `traceparent` header; null: the header is invalid. The standard requires that it is ignored. */
export function parseTraceparent(text: string | undefined): TraceParent | null {
  const parts = text === undefined || text.length > 512 ? null : TRACEPARENT.exec(text);
  if (!parts) return null;
  const [, version, traceId, spanId, flags, more] = parts as unknown as [
    string,
    string,
    string,
    string,
    string,
    string?,
  ];
  if (ZEROS.test(traceId) || ZEROS.test(spanId) || (version === '00' && more !== undefined)) return null;
  return { traceId: traceId as Word, spanId: spanId as Word, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export const traceparentOf = ({ traceId, spanId, sampled }: TraceParent): string =>
  `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;

/** The fields of log lines about a trace, with the names of OpenTelemetry. */
export const traceFields = (trace: TraceParent | null): LogFields =>
  trace === null ? {} : { trace_id: trace.traceId, span_id: trace.spanId };

/** A timed operation of a trace. */
export interface Span {
  readonly context: TraceParent;
  /** Ends the span with its final fields. `fault`: the error that ended it. */
  end(fields: LogFields, fault?: unknown): void;
}

export interface SpanStart {
  kind: 'server' | 'consumer' | 'internal';
  parent?: TraceParent | null;
  /** Further traces to which the work of the span belongs. */
  links?: readonly TraceParent[];
}

/** Records spans. Never throws. Drops spans if recording them would delay work. */
export interface Tracer {
  begin(name: Word, start: SpanStart): Span;
  /** Sends the remaining spans within a few seconds. */
  close(): Promise<void>;
}

// Takes all events up to a rate. Above this rate, takes one of n events, with the number of events that it represents.

export class Sampler {
  readonly #perSecond: number;
  readonly #oneIn: number;
  readonly #now: () => number;
  #second = 0;
  #taken = 0;
  #skipped = 0;

  /** `now`: the time of a monotonic clock, ms. */
  constructor(perSecond: number, oneIn: number, now = monotonicMs) {
    this.#perSecond = perSecond;
    this.#oneIn = oneIn;
    this.#now = now;
  }

  /** Number of events that this event represents. 0: do not log this event; the next logged event represents it too. */
  take(): number {
    const second = Math.floor(this.#now() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#taken = 0;
    }
    if (this.#taken >= this.#perSecond && this.#skipped + 1 < this.#oneIn) {
      this.#skipped++;
      return 0;
    }
    this.#taken++;
    const standsFor = this.#skipped + 1;
    this.#skipped = 0;
    return standsFor;
  }
}
