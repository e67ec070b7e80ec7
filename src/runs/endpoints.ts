// Opens any source and any sink of files from its spec: the one place that knows formats, compressions and names of files.
import { glob, stat } from 'node:fs/promises';
import { SluiceError } from '../core/errors.ts';
import {
  type Compression,
  type FileFormat,
  isArrowFile,
  isColumnar,
  KNOWN_ENDINGS,
  namedFormat,
} from '../core/file-format.ts';
import { withoutSidecars } from '../core/file-names.ts';
import type { InputDeclaration } from '../core/input-declaration.ts';
import type { InputFormat, RunOutput } from '../engine/score-chunks.ts';
import { arrowChunks } from '../formats/arrow/arrow-chunks.ts';
import { rowsOf, tableChunks } from '../formats/columns/table-chunks.ts';
import { TableBudget, type TableLimits } from '../formats/columns/table-limits.ts';
import { decoderOverride } from '../formats/decode/decoder-override.ts';
import { DELIMITERS } from '../formats/delimited/header.ts';
import type { GroupEnd } from '../formats/parquet/parquet-file.ts';
import type { InterpretationSpec } from '../inference/explain/interpretation.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import type { CommitSet } from '../io/sink/commit-set.ts';
import { openStreamSink } from '../io/sink/file-sink.ts';
import type { PiecePlace } from '../io/source/block-cutter.ts';
import { type ByteSource, type Chunks, fromStream } from '../io/source/byte-source.ts';
import { seenChunks } from '../io/source/byte-taps.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { FileSink, FileSource, PostgresSource, StdioSink, StdioSource } from '../pipeline/pipeline-schema.ts';
import { isObject } from '../storage/providers.ts';
import { ControlTotals, type TotalsSpec, totalsOf } from './control-totals.ts';
import type { PlannedInput } from './shards/shard-plan.ts';
import { type DeclaringSource, declarationOf, refuseUnfit } from './spec.ts';
import { openStored, slicedAccess } from './stored-bytes.ts';

/** The name of standard input and standard output. */
export const STDIO = '-';

/** One input or output, resolved from its spec and its name. */
export interface Endpoint {
  /** Path, or `-`. */
  name: string;
  format: FileFormat;
  compression: Compression;
  /** Of csv and tsv. */
  delimiter: string;
  /** It is no file but what this database answers; `name` is what messages call it. */
  query?: PostgresSource;
  /** Declaration of an input. Default: none. */
  declared?: InputDeclaration;
  /** Only this piece of the file; default: all of it. */
  planned?: PlannedInput;
  /** Control totals of an input. Default: none. */
  totals?: TotalsSpec;
  /** Of Parquet and Arrow: most bytes of the text of a row. Default: 64 MiB, for files that Sluice wrote itself. */
  recordBytes?: number | undefined;
  /** Of Parquet and Arrow: only this row, from 1. Default: all. */
  onlyRow?: number;
}

/** Sees bytes as they are stored, in order. */
export type StoredBytes = (bytes: Uint8Array) => void;

/** Receives the bytes of a table as its format has them, uncompressed as a whole, and how many rows end with them; 0: bytes around rows. */
export type TableRowsBytes = (bytes: Uint8Array, rows: number) => void;

export interface OpenSource {
  chunks: Chunks;
  input: InputFormat;
  /** Size of the input as stored, bytes; null where unknown. */
  totalBytes: number | null;
  bytesRead(): number;
  /** Where it lies in a longer input whose first piece it is not. */
  place?: PiecePlace;
  /** Of Parquet: where its row groups end in `chunks`, which are its bytes as they are stored. */
  groups?: { ends: readonly GroupEnd[]; chunks: Chunks };
  /** Whether it can be opened and read again. */
  repeatable: boolean;
  /** As in `ByteSource`, where `chunks` are the bytes as they are stored. */
  again?: ByteSource['again'];
  /** Compares the input with the control totals at its end; `rows`: applications. @throws SluiceError control_total_mismatch */
  checkTotals?: (rows: number) => void;
  /** Idempotent. */
  close(): Promise<void>;
}

export interface OpenSink extends ByteSink {
  /** The format in which predictions are written to it. */
  readonly output: RunOutput;
  /** Uncompressed bytes written to it. */
  readonly plainBytes?: number;
}

/**
 * The inputs of a source, sorted by name: one, or those that match a pattern with `*`, `?` or `[`. A path of an existing file
 * is no pattern. `choose`: the inputs among the matching files; default: all but sidecar files.
 * @throws SluiceError input_not_found | usage: an ending that is no format
 */
export async function inputsOf(
  source: FileSource | StdioSource | PostgresSource,
  choose: (names: readonly string[]) => string[] = withoutSidecars,
): Promise<Endpoint[]> {
  if (source.type === 'postgres') {
    const name = source.table ?? 'query';
    return [{ name, format: 'csv', compression: 'none', delimiter: ',', query: source }];
  }
  if (source.type === 'stdio') return [endpoint(STDIO, source, 'csv')];
  if (isObject(source.path) && isPattern(source.path)) {
    const { matchingObjects } = await import('../storage/object-source.ts');
    const names = await matchingObjects(source.path);
    if (names.length === 0) throw new SluiceError('input_not_found', `no object is called ${source.path}`);
    return choose(names).map((name) => endpoint(name, source, 'csv'));
  }
  if (!isPattern(source.path) || (await stat(source.path).catch(() => null))) {
    return [endpoint(source.path, source, 'csv')];
  }
  const matching: string[] = [];
  for await (const name of glob(source.path)) if (!(await stat(name)).isDirectory()) matching.push(name);
  if (matching.length === 0) throw new SluiceError('input_not_found', `no file is called ${source.path}`);
  const names = choose(matching);
  if (names.length > 1 && source.expect) throw new SluiceError('usage', 'expect: totals are those of one input');
  return names.sort().map((name) => endpoint(name, source, 'csv'));
}

export const isPattern = (file: string): boolean => /[*?[]/.test(file);

/** The output that belongs to an input. @throws SluiceError usage: an ending that is no format */
export function outputEndpoint(sink: FileSink | StdioSink, input: Endpoint): Endpoint {
  if (sink.type === 'stdio') return endpoint(STDIO, sink, 'ndjson');
  return endpoint(outputName(sink.path, input), sink, 'csv');
}

/** A path in which `{name}` is replaced by the name of the input, without folder and endings. */
export const outputName = (pattern: string, input: Pick<Endpoint, 'name' | 'query'>): string =>
  pattern.replaceAll(
    '{name}',
    input.query ? input.name : input.name === STDIO ? 'stdin' : namedFormat(input.name).stem,
  );

interface FormatSpec extends DeclaringSource, TotalsSpec {
  format?: FileFormat | undefined;
  compression?: Compression | undefined;
  delimiter?: keyof typeof DELIMITERS | undefined;
}

/**
 * The spec takes precedence over the name; a name without any ending (a pipe, a device) is of the format `otherwise`.
 * @throws SluiceError usage: the ending of the name is no format, and no format is configured
 */
export function endpoint(name: string, said: FormatSpec, otherwise: FileFormat): Endpoint {
  const named = namedFormat(name);
  const format = said.format ?? named.format ?? (named.ending === '' ? otherwise : null);
  if (format === null) {
    throw new SluiceError('usage', `${name}: ${named.ending} is no format; known are ${KNOWN_ENDINGS}, or name one`);
  }
  const delimiter = DELIMITERS[said.delimiter ?? (format === 'tsv' ? 'tab' : 'comma')];
  const declared = declarationOf(said);
  const totals = totalsOf(said);
  const compression = said.compression ?? named.compression;
  const found = { name, format, compression, delimiter, ...(totals === null ? {} : { totals }) };
  if (declared === null) return found;
  refuseUnfit(declared, format);
  return { ...found, declared };
}

/** What observes an input while it is read. */
interface SourceTaps {
  stored?: StoredBytes | undefined;
  /** Of Arrow. */
  rows?: TableRowsBytes | undefined;
}

/** Opens an input. @throws SluiceError input_not_found | input_changed: not as planned; while reading: input_unreadable | input_changed | truncated_input */
export async function openSource(from: Endpoint, readBytes?: number, taps: SourceTaps = {}): Promise<OpenSource> {
  const { format, compression, planned, declared } = from;
  const encoding = declared?.encoding ?? null;
  const source = await openBytes(from, readBytes);
  const regular = source.totalBytes !== null;
  let parquetBytes = 0;
  let groups: OpenSource['groups'];
  let chunks: Chunks;
  let close = source.close;
  let totals: ControlTotals | null = null;
  try {
    totals = from.totals ? await openTotals(from.totals, from) : null;
    const bytes = seen(totals?.stored(source.chunks) ?? source.chunks, taps.stored);
    if (format === 'parquet') {
      const lines = await parquetOf(from, source, (read) => {
        parquetBytes += read;
      });
      chunks = lines.chunks;
      groups = { ends: lines.ends, chunks: source.chunks };
      close = async () => {
        await lines.close();
        await source.close();
      };
    } else {
      chunks = await plainOf(bytes, compression);
      if (format === 'arrow')
        chunks = await arrowChunks(chunks, {
          ignored: ignoredBy(declared),
          limits: limitsOf(from),
          near: source.chunks.readInto !== undefined,
          ...(from.onlyRow === undefined ? {} : { onlyRow: from.onlyRow }),
          ...(taps.rows ? { onRows: taps.rows } : {}),
        });
    }
    if (encoding !== null) chunks = (await import('../io/source/transcoded.ts')).transcoded(chunks, encoding);
    chunks = totals?.text(chunks) ?? chunks;
  } catch (error) {
    await close();
    throw error;
  }
  const place = planned ? (await import('./shards/shard-plan.ts')).placeOfPiece(planned) : null;
  const asStored = !planned && !isColumnar(format) && compression === 'none' && encoding === null && totals === null;
  return {
    chunks,
    ...(asStored && source.again ? { again: source.again } : {}),
    input: inputFormatOf(from),
    totalBytes: source.totalBytes,
    bytesRead: format === 'parquet' ? () => parquetBytes : source.bytesRead,
    ...(groups ? { groups } : {}),
    ...(place ? { place } : {}),
    repeatable: regular,
    ...(totals ? { checkTotals: (rows: number) => totals.check(rows) } : {}),
    close,
  };
}

async function openBytes({ name, planned }: Endpoint, readBytes?: number): Promise<ByteSource> {
  if (planned) return (await import('./shards/shard-plan.ts')).openPiece(planned, readBytes);
  if (name === STDIO) return fromStream(process.stdin);
  return openStored(name, readBytes);
}

/** The format in which the engine reads an input. */
export const inputFormatOf = ({
  format,
  delimiter,
  declared,
}: Pick<Endpoint, 'format' | 'delimiter' | 'declared'>): InputFormat => ({
  ...(format === 'csv' || format === 'tsv'
    ? { format: 'delimited', delimiter }
    : format === 'json'
      ? { format }
      : { format: 'ndjson', ...(isColumnar(format) ? { table: true } : {}) }),
  ...(declared ? { declared } : {}),
});

/** @throws SluiceError control_total_mismatch | usage */
async function openTotals(spec: TotalsSpec, { name, format, delimiter, planned }: Endpoint): Promise<ControlTotals> {
  if (planned) throw new SluiceError('usage', 'control totals are those of a whole file, not of a shard');
  if (spec.trailer && format !== 'csv' && format !== 'tsv') {
    throw new SluiceError('usage', 'trailer: is a record of csv or tsv');
  }
  const totals = await ControlTotals.open(spec, name, delimiter);
  if (format === 'parquet') await totals.digestFile(name);
  return totals;
}

const seen = (chunks: Chunks, stored: StoredBytes | undefined): Chunks =>
  stored ? seenChunks(chunks, stored) : chunks;

/** The bytes inside. zlib is loaded for those who need it. */
export async function plainOf(chunks: Chunks, compression: Compression): Promise<Chunks> {
  if (compression === 'none') return chunks;
  const { decompressed } = await import('../io/source/decompressed.ts');
  return decompressed(chunks, compression);
}

/** @throws SluiceError usage: Parquet is read from its end, and packs its pages itself */
async function parquetOf(
  from: Endpoint,
  source: ByteSource,
  onRead: (bytes: number) => void,
): Promise<{ chunks: Chunks; ends: readonly GroupEnd[]; close(): Promise<void> }> {
  const { name, compression, planned, declared, onlyRow } = from;
  const { totalBytes, slice } = source;
  if (totalBytes === null)
    throw new SluiceError('usage', 'a Parquet file is read from its end: it cannot come through a pipe');
  refusePacked(name, compression);
  const { openRandomAccess, openParquet } = await import('../formats/parquet/parquet-file.ts');
  // A shard reads some of the bytes, at their places in the whole.
  const near = slice ? null : await openRandomAccess(name);
  const file = near ?? slicedAccess(name, planned?.file.bytes ?? totalBytes, slice!);
  const ignored = ignoredBy(declared);
  let closed = false;
  const close = async () => {
    if (!closed) await near?.close();
    closed = true;
  };
  const budget = new TableBudget(limitsOf(from));
  const options = { groups: planned?.piece.groups, onRead, ignored, budget };
  const table = await openParquet(file, options, near === null).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  // A read of an object has to be waited for.
  const chunks = await tableChunks(await rowsOf(table, onlyRow), { near: near !== null, budget });
  const ends = table.ends.map(({ end, rows }) => ({ end: end - (planned?.piece.from ?? 0), rows }));
  return { chunks, ends, close };
}

const MOST_WRITTEN_ROW_BYTES = 64 * 1024 * 1024;

const limitsOf = ({ recordBytes = MOST_WRITTEN_ROW_BYTES }: Endpoint): TableLimits => ({ recordBytes });

/** Whether a column of this name is unused. */
function ignoredBy(declared: InputDeclaration | undefined): (name: string) => boolean {
  const ignore = declared?.columns?.ignore ?? [];
  return (name) => ignore === '*' || ignore.includes(name);
}

interface SinkOptions {
  manifest: Manifest;
  passthrough: readonly string[] | '*';
  interpretation: InterpretationSpec | null;
  /** The set that a file is published with. */
  set: CommitSet;
  /** For a resumed run: bytes of the earlier output, stored and uncompressed. */
  from?: { output: number; written: number } | null;
  /** Receives the stored bytes of the predictions. */
  stored?: StoredBytes | undefined;
  /** Of Parquet and Arrow. */
  onRows?: TableRowsBytes | undefined;
  /** For a resumed run: receives the stored bytes of the earlier output. */
  goOn?: ((stored: AsyncIterable<Uint8Array>) => Promise<void>) | undefined;
}

/** Opens an output. `commit` completes a file, which is published with its set. @throws SluiceError output_unwritable | output_exists_as_folder | usage */
export async function openSink(to: Endpoint, options: SinkOptions): Promise<OpenSink> {
  const { name, format, compression, delimiter } = to;
  if (isColumnar(format)) {
    if (format === 'parquet') refusePacked(name, compression);
    if (options.passthrough === '*') {
      throw new SluiceError(
        'usage',
        `${format === 'parquet' ? 'a Parquet file' : 'Arrow'} needs the names of its columns: name those passed through`,
      );
    }
  }
  const end =
    name === STDIO
      ? openStreamSink(process.stdout, 'standard output')
      : await options.set.open(name, { from: options.from?.output ?? null });
  if (end.earlier) await options.goOn?.(end.earlier());
  const bytes = options.stored ? seenSink(end, options.stored) : end;
  const packed = format === 'parquet' ? bytes : await packedSink(bytes, compression);
  if (!isColumnar(format)) return withOutput(packed, { format, delimiter }, options.from?.written);
  // The reference path goes through text, whose reader knows nothing of how workers make columns.
  const lines = decoderOverride() === 'reference';
  const table = { ...options, passthrough: options.passthrough as readonly string[], lines };
  const output: RunOutput = lines ? { format: 'ndjson', delimiter, cells: true } : { format: 'columns', delimiter };
  if (format === 'arrow') {
    const { arrowSink } = await import('../formats/arrow/arrow-sink.ts');
    return withOutput(arrowSink(packed, table, isArrowFile(name)), output);
  }
  const { parquetSink } = await import('../formats/parquet/parquet-sink.ts');
  return withOutput(parquetSink(bytes, table), output);
}

/** The same sink, with the format it takes. `before`: bytes that were written to it earlier. */
export function withOutput(sink: ByteSink, output: OpenSink['output'], before = 0): OpenSink {
  let plain = before;
  return {
    output,
    get plainBytes() {
      return plain;
    },
    ...(sink.sync ? { sync: () => sink.sync!() } : {}),
    ...(sink.blockEnd ? { blockEnd: () => sink.blockEnd!() } : {}),
    revocable: sink.revocable,
    get bytesWritten() {
      return sink.bytesWritten;
    },
    write: (b) => {
      plain += b.length;
      return sink.write(b);
    },
    commit: () => sink.commit(),
    abort: () => sink.abort(),
  };
}

/** The same sink; `stored` receives the bytes written to it. */
export function seenSink(sink: ByteSink, stored: StoredBytes): ByteSink {
  return {
    ...sink,
    get bytesWritten() {
      return sink.bytesWritten;
    },
    write: (bytes) => {
      stored(bytes);
      return sink.write(bytes);
    },
  };
}

function refusePacked(name: string, compression: Compression): void {
  if (compression === 'none') return;
  throw new SluiceError('usage', `${name}: a Parquet file packs its pages itself, it is not ${compression} as a whole`);
}

/** The same sink, for bytes that it packs. */
export async function packedSink(bytes: ByteSink, compression: Compression): Promise<ByteSink> {
  if (compression === 'none') return bytes;
  const { compressedSink } = await import('../io/sink/compressed-sink.ts');
  return compressedSink(bytes, compression);
}
