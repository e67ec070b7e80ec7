// A span for a micro-batch of records, linked to the traces that its records carry.
import { named, words } from '../core/log.ts';
import { parseTraceparent, TRACE_HEADER, type TraceParent, type Tracer } from '../core/tracing.ts';
import type { IncomingRecord } from '../kafka/client/records.ts';
import { headerText } from '../kafka/dead-letters.ts';

/** Collectors take 128 links a span. */
const MAX_LINKS = 128;

/** Does `work` within a span; where nobody collects traces, just does it. */
export async function withBatchSpan<T>(
  tracer: Tracer | null,
  records: readonly IncomingRecord[],
  work: () => Promise<T>,
): Promise<T> {
  if (tracer === null) return work();
  const span = tracer.begin(words`micro-batch`, { kind: 'consumer', links: linksOf(records) });
  const [first] = records;
  const fields = {
    rows: records.length,
    ...(first ? { topic: named(first.topic), partition: first.partition, offset: Number(first.offset) } : {}),
  };
  try {
    const result = await work();
    span.end(fields);
    return result;
  } catch (error) {
    span.end(fields, error);
    throw error;
  }
}

/** The traces of the records, each once. */
export function linksOf(records: readonly IncomingRecord[]): TraceParent[] {
  const links = new Map<string, TraceParent>();
  for (const { headers } of records) {
    if (links.size === MAX_LINKS) break;
    const trace = parseTraceparent(headerText(headers, TRACE_HEADER));
    if (trace && !links.has(trace.traceId)) links.set(trace.traceId, trace);
  }
  return [...links.values()];
}
