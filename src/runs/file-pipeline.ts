// From files or standard input to files, standard output or a topic.
import { glob } from 'node:fs/promises';
import path from 'node:path';
import type { FileSink, FileSource, Pipeline, StdioSink, StdioSource } from '../config/pipeline-config.ts';
import { asSluiceError, SluiceError } from '../core/errors.ts';
import type { HostedModel } from '../engine/model-host.ts';
import { type InputFormat, scoreStream } from '../engine/score-stream.ts';
import { DELIMITERS } from '../io/decode/header.ts';
import type { OutputFormat } from '../io/format/formatter.ts';
import { REJECTS_HEADER } from '../io/format/rejects.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import { openFileSink, openStreamSink } from '../io/sink/file-sink.ts';
import { parquetOutput } from '../io/sink/parquet-output.ts';
import { type ByteSource, fromStream, openFile } from '../io/source/byte-source.ts';
import { type Compression, compressionOf, compressor, decompressed, plainName } from '../io/source/compressed.ts';
import { parquetLines } from '../io/source/parquet-lines.ts';
import type { OutgoingRecord } from '../kafka/records.ts';
import { TopicWriter } from '../kafka/topic-writer.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { RunContext, RunningPipeline, RunTotals } from './context.ts';
import { connectionOf } from './kafka-connection.ts';
import { interpretationOf } from './spec.ts';

type FileFormat = NonNullable<FileSource['format']>;

export async function startFilePipeline(pipeline: Pipeline, context: RunContext): Promise<RunningPipeline> {
  const inputs = await inputsOf(pipeline);
  const totals: RunTotals = { rows: 0, scored: 0, rejected: 0 };
  const stop = new AbortController();
  const rejects = new RejectsFile(pipeline);
  const done = (async () => {
    const topic = pipeline.sink.type === 'kafka' ? await openTopic(pipeline) : null;
    try {
      for (const input of inputs) await scoreOne(pipeline, context, input, totals, topic, rejects, stop.signal);
      await rejects.commit();
    } catch (error) {
      await rejects.abort();
      throw error;
    } finally {
      await topic?.close();
    }
  })();
  done.catch(() => {});
  return {
    totals,
    lag: () => null,
    done,
    async stop() {
      stop.abort(new SluiceError('cancelled', 'the pipeline was stopped'));
      await done.catch(() => {});
    },
  };
}

interface Input {
  /** Path, or `-` for standard input. */
  name: string;
  format: FileFormat;
  compression: Compression;
  delimiter: string;
}

async function inputsOf({ source }: Pipeline): Promise<Input[]> {
  const from = source as FileSource | StdioSource;
  if (from.type === 'stdio') {
    return [
      {
        name: '-',
        format: from.format,
        compression: from.compression,
        delimiter: delimiterOf(from.format, from.delimiter),
      },
    ];
  }
  const names: string[] = [];
  if (/[*?[]/.test(from.path)) for await (const name of glob(from.path)) names.push(name);
  else names.push(from.path);
  names.sort();
  if (names.length === 0) throw new SluiceError('input_not_found', `no file is called ${from.path}`);
  return names.map((name) => {
    const format = from.format ?? formatOf(name);
    return {
      name,
      format,
      compression: from.compression ?? compressionOf(name),
      delimiter: delimiterOf(format, from.delimiter),
    };
  });
}

/** By the name of the file, csv if it says nothing. */
function formatOf(name: string): FileFormat {
  const ending = path.extname(plainName(name)).toLowerCase();
  if (ending === '.parquet') return 'parquet';
  if (ending === '.tsv' || ending === '.tab') return 'tsv';
  if (ending === '.ndjson' || ending === '.jsonl') return 'ndjson';
  return ending === '.json' ? 'json' : 'csv';
}

const delimiterOf = (format: FileFormat, name: keyof typeof DELIMITERS | undefined): string =>
  DELIMITERS[name ?? (format === 'tsv' ? 'tab' : 'comma')];

const inputFormat = ({ format, delimiter }: Input): InputFormat =>
  format === 'json' || format === 'ndjson'
    ? { format }
    : format === 'parquet'
      ? { format: 'ndjson' }
      : { format: 'delimited', delimiter };

async function scoreOne(
  pipeline: Pipeline,
  context: RunContext,
  input: Input,
  totals: RunTotals,
  topic: TopicSink | null,
  rejects: RejectsFile,
  signal: AbortSignal,
): Promise<void> {
  const { host, metrics } = context;
  const hosted: HostedModel = await host.use(pipeline.model);
  const source: ByteSource = input.name === '-' ? fromStream(process.stdin) : await openFile(input.name);
  let sink: Output | null = null;
  try {
    sink = topic ?? (await openOutput(pipeline, input, hosted.model.manifest));
    const { write } = sink;
    const before = { ...totals };
    const { model, pool } = hosted;
    await scoreStream({
      model,
      pool,
      chunks: input.format === 'parquet' ? parquetLines(input.name) : decompressed(source.chunks, input.compression),
      input: inputFormat(input),
      output: sink.output,
      passthrough: pipeline.score.passthrough ?? (topic ? '*' : []),
      interpretation: interpretationOf(pipeline),
      limits: { maxRecordBytes: pipeline.score.record_bytes },
      failOnInvalid: pipeline.on_invalid === 'fail',
      write,
      writeRejects: (lines) => rejects.write(lines),
      onPart: (part, counts) => {
        totals.rows = before.rows + counts.rows;
        totals.scored = before.scored + counts.scored;
        totals.rejected = before.rejected + counts.rejected;
        metrics.rows.inc({ model: model.ref, outcome: 'scored' }, part.scored);
        if (part.rejected > 0) metrics.rows.inc({ model: model.ref, outcome: 'rejected' }, part.rejected);
        metrics.scoring.observe({ model: model.ref }, part.workMs / 1000);
      },
      signal,
    });
    await sink.commit();
  } catch (error) {
    await sink?.abort();
    throw asSluiceError(error, 'worker_failed');
  } finally {
    await source.close();
    hosted.release();
  }
}

interface Output {
  output: { format: OutputFormat; delimiter: string };
  write(bytes: Uint8Array): Promise<void>;
  commit(): Promise<void>;
  abort(): Promise<void>;
}

async function openOutput(pipeline: Pipeline, input: Input, manifest: Manifest): Promise<Output> {
  const to = pipeline.sink as FileSink | StdioSink;
  const file = to.type === 'file' ? to.path.replaceAll('{name}', nameOf(input.name)) : null;
  const format = to.format ?? formatOf(file ?? '');
  const compression = to.compression ?? (file === null ? 'none' : compressionOf(file));
  if (file !== null && input.name !== '-' && path.resolve(file) === path.resolve(input.name)) {
    throw new SluiceError('usage', 'the output is the input');
  }
  const sink: ByteSink = file === null ? openStreamSink(process.stdout, 'standard output') : await openFileSink(file);
  if (format === 'parquet') {
    const { passthrough = [] } = pipeline.score;
    const names = passthrough === '*' ? [] : passthrough;
    const packed = parquetOutput(sink, manifest, names, interpretationOf(pipeline));
    return {
      output: { format: 'ndjson', delimiter: ',' },
      write: (b) => packed.write(b),
      async commit() {
        await packed.end();
        await sink.commit();
      },
      abort: () => sink.abort(),
    };
  }
  const output = { format, delimiter: delimiterOf(format, to.delimiter) };
  if (compression === 'none') {
    return { output, write: (b) => sink.write(b), commit: () => sink.commit(), abort: () => sink.abort() };
  }
  const packed = compressor(compression, (b) => sink.write(b));
  return {
    output,
    write: (b) => packed.write(b),
    async commit() {
      await packed.end();
      await sink.commit();
    },
    abort: () => sink.abort(),
  };
}

/** Of the input, without folder and endings. */
const nameOf = (file: string): string => path.basename(plainName(file)).replace(/\.[^.]+$/, '');

interface TopicSink extends Output {
  close(): Promise<void>;
}

/** Predictions as records of a topic: one line is one value. Idempotent, not transactional: a run that failed may be seen twice. */
async function openTopic(pipeline: Pipeline): Promise<TopicSink> {
  if (pipeline.sink.type !== 'kafka') throw new SluiceError('usage', 'the sink is no topic');
  const { topic, compression, key } = pipeline.sink;
  const writer = await TopicWriter.open({ connection: connectionOf(pipeline.kafka), topic, compression });
  let rest = Buffer.alloc(0);
  const send = async (bytes: Uint8Array): Promise<void> => {
    const text = Buffer.concat([rest, bytes]);
    const records: OutgoingRecord[] = [];
    let from = 0;
    for (let end = text.indexOf(10); end >= 0; end = text.indexOf(10, from)) {
      const value = Buffer.from(text.subarray(from, end));
      records.push({ key: key === undefined ? null : keyOf(value, key), value });
      from = end + 1;
    }
    rest = Buffer.from(text.subarray(from));
    if (records.length > 0) await writer.write(records);
  };
  return {
    output: { format: 'ndjson', delimiter: ',' },
    write: send,
    async commit() {},
    async abort() {},
    close: () => writer.close(),
  };
}

function keyOf(value: Buffer, column: string): Buffer | null {
  const found: unknown = (JSON.parse(value.toString('utf8')) as Record<string, unknown>)[column];
  return found === undefined || found === null ? null : Buffer.from(String(found));
}

/** The list of rejected rows of all inputs, opened at the first; in place with the outputs. */
class RejectsFile {
  readonly #path: string | null;
  #sink: ByteSink | null = null;

  constructor(pipeline: Pipeline) {
    this.#path = pipeline.dead_letter?.type === 'file' ? pipeline.dead_letter.path : null;
  }

  async write(lines: string): Promise<void> {
    if (this.#path === null) return;
    if (!this.#sink) {
      this.#sink = await openFileSink(this.#path);
      await this.#sink.write(Buffer.from(REJECTS_HEADER));
    }
    await this.#sink.write(Buffer.from(lines));
  }

  async commit(): Promise<void> {
    await this.#sink?.commit();
  }

  async abort(): Promise<void> {
    await this.#sink?.abort();
  }
}
