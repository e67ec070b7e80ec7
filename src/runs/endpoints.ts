// Opens inputs and outputs of bytes. Each is a chain: transport, taps, compression, encoding, format.

import { connectorOf } from '../connectors/connectors.ts';
import type { End } from '../connectors/contract/connector.ts';
import { STDIO } from '../connectors/stdio/stdio-connector.ts';
import { openStored } from '../connectors/stored-bytes.ts';
import { SluiceError } from '../core/errors.ts';
import type { RunOutput } from '../engine/stream-spec.ts';
import type { OpenTable, TableRowsBytes } from '../formats/columns/table-format.ts';
import { decoderOverride } from '../formats/decode/decoder-override.ts';
import { formatEntry, isColumnar, isDelimited } from '../formats/formats.ts';
import type { InterpretationSpec } from '../inference/explain/interpretation.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import type { CommitSet } from '../io/sink/commit-set.ts';
import { openStreamSink } from '../io/sink/file-sink.ts';
import { type ByteSource, type Chunks, fromStream } from '../io/source/byte-source.ts';
import { seenChunks, skippingLines } from '../io/source/byte-taps.ts';
import type { Manifest } from '../model/package/manifest.ts';
import {
  type OpenSink,
  type OpenSource,
  packedSink,
  plainOf,
  type StoredBytes,
  seenSink,
  withOutput,
} from './byte-ends.ts';
import { ControlTotals } from './control-totals.ts';
import { type Endpoint, inputFormatOf } from './endpoint-specs.ts';

/** Observers of an input's bytes. */
interface SourceTaps {
  stored?: StoredBytes | undefined;
  /** Arrow only: called with the rows of each table. */
  rows?: TableRowsBytes | undefined;
}

/**
 * Opens an input.
 * @throws SluiceError input_not_found | input_changed: the input differs from the plan
 * @throws SluiceError while reading: input_unreadable | input_changed | truncated_input
 */
export async function openSource(from: Endpoint, readBytes?: number, taps: SourceTaps = {}): Promise<OpenSource> {
  const { format, compression, planned, declared, skipLines } = from;
  if (planned && skipLines !== undefined)
    throw new SluiceError('usage', 'skip_lines applies to whole files, not to shards');
  const encoding = declared?.encoding ?? null;
  const stored = await openTransport(from, readBytes);
  let table: OpenTable | null = null;
  const close = async () => {
    await table?.close?.();
    await stored.close();
  };
  try {
    const totals = await openTotals(from);
    const tapped = totals?.stored(stored.chunks) ?? stored.chunks;
    const seen = taps.stored ? seenChunks(tapped, taps.stored) : tapped;
    table = await openTable(from, stored, seen, taps.rows);
    let chunks = table?.chunks ?? (await plainOf(seen, compression));
    if (encoding !== null) chunks = (await import('../io/source/transcoded.ts')).transcoded(chunks, encoding);
    chunks = totals?.text(chunks) ?? chunks;
    if (skipLines !== undefined) chunks = skippingLines(chunks, skipLines);
    const place = planned ? (await import('./shards/shard-plan.ts')).placeOfPiece(planned) : null;
    const asStored = !planned && !isColumnar(format) && compression === 'none' && encoding === null && totals === null;
    return {
      chunks,
      ...(asStored && stored.again ? { again: stored.again } : {}),
      input: inputFormatOf(from),
      totalBytes: stored.totalBytes,
      bytesRead: table?.bytesRead ?? stored.bytesRead,
      ...(table?.ends ? { groups: { ends: table.ends, chunks: stored.chunks } } : {}),
      ...(place ? { place } : {}),
      repeatable: stored.totalBytes !== null,
      ...(totals ? { checkTotals: (rows: number) => totals.check(rows) } : {}),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Opens the rows of a query. @throws SluiceError database_* | usage */
export async function openQuerySource(
  query: End,
  run: { manifest: Manifest; passthrough: readonly string[] | '*' },
): Promise<OpenSource> {
  // A repeated query reads another snapshot of the table, which is as complete as the first.
  return { ...(await connectorOf(query).openRows!(query, run)), totalBytes: null, repeatable: true };
}

async function openTransport({ name, planned }: Endpoint, readBytes?: number): Promise<ByteSource> {
  if (planned) return (await import('./shards/shard-plan.ts')).openPiece(planned, readBytes);
  if (name === STDIO) return fromStream(process.stdin);
  return openStored(name, readBytes);
}

/** Opens the control totals of an input; null if none are configured. @throws SluiceError control_total_mismatch | usage */
async function openTotals({ totals: spec, name, format, delimiter, planned }: Endpoint): Promise<ControlTotals | null> {
  if (!spec) return null;
  if (planned) throw new SluiceError('usage', 'control totals apply to whole files, not to shards');
  if (spec.trailer && !isDelimited(format))
    throw new SluiceError('usage', 'the option trailer is supported for csv and tsv only');
  const totals = await ControlTotals.open(spec, name, delimiter);
  // Parquet is not read from start to end, so its checksum needs a separate pass.
  if (format === 'parquet') await totals.digestFile(name);
  return totals;
}

const MOST_WRITTEN_ROW_BYTES = 64 * 1024 * 1024;

/** Opens an input in a columnar format; null for text formats. */
async function openTable(
  { name, format, compression, declared, planned, onlyRow, recordBytes = MOST_WRITTEN_ROW_BYTES }: Endpoint,
  stored: ByteSource,
  chunks: Chunks,
  onRows: TableRowsBytes | undefined,
): Promise<OpenTable | null> {
  const { table } = formatEntry(format);
  if (!table) return null;
  const ignore = declared?.columns?.ignore ?? [];
  // With `*`, only the model and the passthrough columns decide which columns are unused; they are not known yet.
  const ignored = (column: string, nested: boolean): boolean => (ignore === '*' ? nested : ignore.includes(column));
  const piece = planned && {
    totalBytes: planned.file.bytes,
    from: planned.piece.from,
    groups: planned.piece.groups,
  };
  const { openReader } = await table();
  return openReader(
    { name, stored, chunks, compression, piece },
    { ignored, limits: { recordBytes }, onlyRow, onRows },
  );
}

interface SinkOptions {
  manifest: Manifest;
  passthrough: readonly string[] | '*';
  interpretation: InterpretationSpec | null;
  /** The commit set that publishes the file. */
  set: CommitSet;
  /** For a resumed run: length of the earlier output in bytes, raw and uncompressed. */
  from?: { output: number; written: number } | null;
  /** Receives the raw bytes of the predictions. */
  stored?: StoredBytes | undefined;
  /** Parquet and Arrow only. */
  onRows?: TableRowsBytes | undefined;
  /** For a resumed run: receives the raw bytes of the earlier output. */
  goOn?: ((stored: AsyncIterable<Uint8Array>) => Promise<void>) | undefined;
}

/**
 * Opens an output. `commit` completes the file; the commit set publishes the file.
 * @throws SluiceError output_unwritable | output_exists_as_folder | usage
 */
export async function openSink(to: Endpoint, options: SinkOptions): Promise<OpenSink> {
  const { name, format, compression, delimiter } = to;
  const { title, table } = formatEntry(format);
  const { manifest, passthrough, interpretation, onRows } = options;
  if (table && passthrough === '*') {
    throw new SluiceError('usage', `passthrough * is not supported for ${title}: list the columns to pass through`);
  }
  // The reference decoder does not use the columns that workers compute, so rows are converted to text lines for the
  // writer.
  const lines = decoderOverride() === 'reference';
  const compressed = (bytes: ByteSink) => packedSink(bytes, compression);
  const writer = await table?.();
  const writing = { name, compression, compressed, manifest, interpretation, onRows, lines };
  writer?.refuse?.(writing);
  const stored =
    name === STDIO
      ? openStreamSink(process.stdout, 'standard output')
      : await options.set.open(name, { from: options.from?.output ?? null });
  if (stored.earlier) await options.goOn?.(stored.earlier());
  const bytes = options.stored ? seenSink(stored, options.stored) : stored;
  if (!writer) return withOutput(await compressed(bytes), { format, delimiter } as RunOutput, options.from?.written);
  const sink = await writer.openWriter(bytes, { ...writing, passthrough: passthrough as readonly string[] });
  return withOutput(sink, lines ? { format: 'ndjson', delimiter, cells: true } : { format: 'columns', delimiter });
}
