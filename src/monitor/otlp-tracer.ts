// Sends spans in batches by OTLP over HTTP, to the endpoint that the environment variables of OpenTelemetry configure.
import type { Attributes, AttributeValue, SpanContext } from '@opentelemetry/api';
import type * as Sdk from '@opentelemetry/sdk-trace';
import { monotonicMs, startTimer, stopTimer } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { type Log, type LogFields, saysOf, type Word, words } from '../core/log.ts';
import { Sampler, type Span, type SpanStart, type TraceParent, type Tracer } from '../core/tracing.ts';
import { VERSION } from '../core/version.ts';

/** Maximum time in ms for sending the remaining spans at the end. */
const CLOSING_MS = 2_000;
/** Maximum number of traces that are started per second. A span costs an eighth of a small request. */
const TRACES_PER_SECOND = 10;
/** Minimum interval in ms between warnings that spans cannot be sent. */
const SILENCE_MS = 60_000;

/** Names of log fields in OpenTelemetry's semantic conventions. */
const NAMES: Readonly<Record<string, string>> = {
  method: 'http.request.method',
  route: 'http.route',
  status: 'http.response.status_code',
  code: 'error.type',
  topic: 'messaging.destination.name',
  partition: 'messaging.destination.partition.id',
};
/** Fields that a span already contains. */
const LEFT_OUT = new Set(['trace_id', 'span_id', 'ms', 'sampled']);

/**
 * The URL to which spans are sent; null if no endpoint is configured. Without a URL, OpenTelemetry is not loaded.
 * @throws SluiceError usage
 */
function tracesUrl(env: NodeJS.ProcessEnv, said: string | undefined): string | null {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true') return null;
  const base = said || env.OTEL_EXPORTER_OTLP_ENDPOINT;
  const whole = (!said && env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) || (base && `${base.replace(/\/$/, '')}/v1/traces`);
  if (!whole) return null;
  if (/^https?:$/.test(URL.parse(whole)?.protocol ?? '')) return whole;
  throw new SluiceError('usage', 'the trace endpoint (OTLP) is not an http(s) address');
}

interface TracerOptions {
  env: NodeJS.ProcessEnv;
  /** Base URL (without `/v1/traces`) that overrides the endpoint in the environment. */
  endpoint?: string | undefined;
  /**
   * Maximum number of recorded traces that are started per second. If the environment configures a share of traces
   * instead, the share applies.
   */
  perSecond?: number;
  log: Log;
}

/** Returns null if no endpoint is configured. @throws SluiceError usage: the endpoint is not an address */
export async function openTracer({
  env,
  endpoint,
  perSecond = TRACES_PER_SECOND,
  log,
}: TracerOptions): Promise<Tracer | null> {
  const url = tracesUrl(env, endpoint);
  if (url === null) return null;
  const [api, sdk, { OTLPTraceExporter }, { resourceFromAttributes, envDetector, detectResources }] = await Promise.all(
    [
      import('@opentelemetry/api'),
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/exporter-trace-otlp-proto'),
      import('@opentelemetry/resources'),
    ],
  );
  let told = Number.NEGATIVE_INFINITY;
  // The error text is omitted, because it may contain a response of the collector.
  const tell = (): void => {
    if (monotonicMs() - told < SILENCE_MS) return;
    told = monotonicMs();
    log('warn', 'tracing_failed', words`traces cannot be sent`);
  };
  api.diag.setLogger(
    { error: tell, warn: tell, info: () => {}, debug: () => {}, verbose: () => {} },
    { logLevel: api.DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  const root =
    env.OTEL_TRACES_SAMPLER_ARG === undefined
      ? firstOfEachSecond(sdk, perSecond)
      : new sdk.TraceIdRatioBasedSampler(ratioOf(env.OTEL_TRACES_SAMPLER_ARG));
  const provider = new sdk.TracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'sluice', 'service.version': VERSION }).merge(
      detectResources({ detectors: [envDetector] }),
    ),
    sampler: new sdk.ParentBasedSampler({ root }),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: new OTLPTraceExporter({ url }) })],
  });
  const tracer = provider.getTracer('sluice', VERSION);
  const kinds = { server: api.SpanKind.SERVER, consumer: api.SpanKind.CONSUMER, internal: api.SpanKind.INTERNAL };
  const contextOf = ({ traceId, spanId, sampled }: TraceParent) => ({
    traceId,
    spanId,
    traceFlags: sampled ? api.TraceFlags.SAMPLED : api.TraceFlags.NONE,
    isRemote: true,
  });
  return {
    begin(name: Word, { kind, parent, links = [] }: SpanStart): Span {
      const within = parent ? api.trace.setSpanContext(api.ROOT_CONTEXT, contextOf(parent)) : api.ROOT_CONTEXT;
      const options = { kind: kinds[kind], links: links.map((link) => ({ context: contextOf(link) })) };
      const span = tracer.startSpan(name, options, within);
      const { traceId, spanId, traceFlags } = span.spanContext();
      return {
        context: {
          traceId: traceId as Word,
          spanId: spanId as Word,
          sampled: isSampled({ traceFlags }),
        },
        end(fields, fault) {
          if (span.isRecording()) span.setAttributes(attributesOf(fields));
          if (fault !== undefined) span.setStatus({ code: api.SpanStatusCode.ERROR, message: saysOf(fault) });
          span.end();
        },
      };
    },
    async close() {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = startTimer(resolve, CLOSING_MS);
      await Promise.race([provider.shutdown().catch(tell), promise]);
      stopTimer(timer);
    },
  };
}

/** The sampled flag: https://www.w3.org/TR/trace-context/#sampled-flag */
const isSampled = ({ traceFlags }: Pick<SpanContext, 'traceFlags'>): boolean => (traceFlags & 1) !== 0;

/** The share of traces to record. An invalid text counts as 1. */
function ratioOf(text: string): number {
  const ratio = Number(text);
  return ratio >= 0 && ratio <= 1 ? ratio : 1;
}

/**
 * Limits the cost of traces, whatever the number of requests. The decision is made where a trace starts, and applies to
 * all linked work.
 */
function firstOfEachSecond({ SamplingDecision }: typeof Sdk, perSecond: number): Sdk.Sampler {
  const sampler = new Sampler(perSecond, Number.POSITIVE_INFINITY);
  const recorded = { decision: SamplingDecision.RECORD_AND_SAMPLED };
  const left = { decision: SamplingDecision.NOT_RECORD };
  return {
    shouldSample: (_context, _traceId, _name, _kind, _attributes, links) =>
      links.some(({ context }) => isSampled(context)) || sampler.take() > 0 ? recorded : left,
    toString: () => `FirstOfEachSecond{${perSecond}}`,
  };
}

function attributesOf(fields: LogFields): Attributes {
  const found: Attributes = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined || LEFT_OUT.has(name)) continue;
    found[NAMES[name] ?? `sluice.${name}`] = value as AttributeValue;
  }
  return found;
}
