// A collector of traces that decodes what it gets with the code that OpenTelemetry generated from its protobuf files. Its exporter, which
// is what we send with, no longer has that code, so an earlier release is taken for it.
import { once } from 'node:events';
import http from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import type protobuf from 'protobufjs';
import { onTestFinished } from 'vitest';

const GENERATED = 'otlp-decoder/build/src/generated/root.js';

/** What protobufjs generates of a message. */
interface Message {
  decode(bytes: Uint8Array): object;
  // biome-ignore lint/suspicious/noExplicitAny: what it holds is the protocol's
  toObject(message: object, options: protobuf.IConversionOptions): any;
}

export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  name: string;
  kind: string;
  /** ERROR where it failed. */
  status: string;
  attributes: Record<string, unknown>;
  links: string[];
}

export interface OtlpReceiver {
  endpoint: string;
  spans: ReceivedSpan[];
  /** Of the program that sent them. */
  resource: Record<string, unknown>;
  /** All that came, as text. */
  text(): string;
}

interface KeyValue {
  key: string;
  value: Record<string, unknown> & { value: string };
}

const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString('hex');
const attributesOf = (list: readonly KeyValue[] = []): Record<string, unknown> =>
  Object.fromEntries(list.map(({ key, value }) => [key, Object.values(value)[0]]));

export async function startOtlpReceiver(status = 200): Promise<OtlpReceiver> {
  const { opentelemetry } = createRequire(import.meta.url)(GENERATED);
  const type = opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest as Message;
  const spans: ReceivedSpan[] = [];
  const resource: Record<string, unknown> = {};
  const bodies: Buffer[] = [];
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const sent = Buffer.concat(chunks);
      const body = request.headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent;
      bodies.push(body);
      if (request.url === '/v1/traces' && status === 200) take(body);
      response.writeHead(status, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  const take = (body: Buffer): void => {
    const decoded = type.toObject(type.decode(body), { longs: Number, enums: String });
    for (const { resource: from, scopeSpans = [] } of decoded.resourceSpans ?? []) {
      Object.assign(resource, attributesOf(from?.attributes));
      for (const span of scopeSpans.flatMap((s: { spans?: unknown[] }) => s.spans ?? [])) {
        spans.push({
          traceId: hex(span.traceId),
          spanId: hex(span.spanId),
          parentSpanId: hex(span.parentSpanId),
          name: span.name,
          kind: span.kind,
          status: String(span.status?.code ?? ''),
          attributes: attributesOf(span.attributes),
          links: (span.links ?? []).map((link: { traceId: Uint8Array }) => hex(link.traceId)),
        });
      }
    }
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { endpoint, spans, resource, text: () => Buffer.concat(bodies).toString('latin1') };
}
