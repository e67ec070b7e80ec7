// `sluice score`: a portfolio file in, a prediction for every row out.
import path from 'node:path';
import { type Command, Option } from 'commander';
import { SluiceError } from '../../core/errors.ts';
import type { RunCounts } from '../../engine/run-stream.ts';
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import { Probe } from '../../inference/sandbox/probe.ts';
import { DELIMITERS, type DelimiterName } from '../../io/decode/header.ts';
import type { OutputFormat } from '../../io/format/formatter.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import { openFileSink, openStreamSink } from '../../io/sink/file-sink.ts';
import { type ByteSource, fromStream, openFile } from '../../io/source/byte-source.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import { count, Progress } from '../../monitor/progress.ts';
import { type ScoreFileResult, scoreFile } from '../../runs/score-file.ts';
import { EXIT, openRegistry, signalled, wholeNumber } from './common.ts';

export interface ScoreOptions {
  model: string;
  output: string;
  rejects?: string;
  delimiter?: string;
  format?: string;
  passthrough?: string;
  onInvalid: string;
  interpretation?: boolean;
  top?: number;
  interpretBelow?: string;
  registry?: string;
  workers?: number;
  evaluator?: 'auto' | 'onnxruntime' | 'native';
  batchRows?: number;
  blockBytes?: number;
  readBytes?: number;
  maxRowBytes?: number;
  json?: boolean;
  quiet?: boolean;
}

export function addScoreCommand(program: Command): void {
  program
    .command('score')
    .description('score a CSV or TSV file of applications')
    .argument('<file>', 'applications with a header row; - for standard input')
    .requiredOption('-m, --model <ref>', 'model: id, id:version or id@alias')
    .option('-o, --output <file>', 'where predictions go; - for standard output', '-')
    .option('--rejects <file>', 'where rejected rows are listed (default: beside the output)')
    .option(
      '--delimiter <name>',
      'delimiter of the input: tab, comma, semicolon, pipe (default: by the name of the file)',
    )
    .option('--format <name>', 'format of the output: csv, tsv, json, ndjson (default: by the name of the output)')
    .option('--passthrough <columns>', 'columns outside the model to echo: a,b or *')
    .option('--interpretation', 'effects of every column and reasons beside each prediction')
    .option('--top <n>', 'only the n largest effects', wholeNumber('top', 1, 2000))
    .option('--interpret-below <p>', 'interpretation only of rows whose probability (or value) is below p')
    .option('--on-invalid <what>', 'report: list invalid rows and go on; fail: stop at the first', 'report')
    .option('--registry <address>', 'folder, s3://… or mlflow+https://… (default: $SLUICE_REGISTRY or ./models)')
    .option('--workers <n>', 'worker threads (default: one a core)', wholeNumber('workers', 1, 256))
    .addOption(
      new Option('--evaluator <which>', 'our own where it agrees with ONNX Runtime, or only one').choices([
        'auto',
        'onnxruntime',
        'native',
      ]),
    )
    .option('--batch-rows <n>', 'rows a micro-batch', wholeNumber('batch-rows', 1, 65_536))
    .option('--block-bytes <n>', 'bytes a block', wholeNumber('block-bytes', 16, 64 * 1024 * 1024))
    .option('--read-bytes <n>', 'bytes a read', wholeNumber('read-bytes', 1, 64 * 1024 * 1024))
    .option('--max-row-bytes <n>', 'longest row taken', wholeNumber('max-row-bytes', 16, 64 * 1024 * 1024))
    .option('--json', 'print a machine-readable summary (on standard error when predictions go to standard output)')
    .option('--quiet', 'no progress, no summary')
    .action(async (file: string, options: ScoreOptions) => {
      process.exitCode = await score(file, options);
    });
}

/** Runs the command; returns its exit code. @throws SluiceError whatever ends it */
export async function score(file: string, options: ScoreOptions): Promise<number> {
  // The process that compares evaluators starts while the model is looked up.
  if (options.evaluator !== 'onnxruntime') Probe.prepare();
  try {
    return await scoreWith(file, options);
  } finally {
    Probe.dismiss();
  }
}

async function scoreWith(file: string, options: ScoreOptions): Promise<number> {
  const delimiter = inputDelimiter(file, options.delimiter);
  const output = outputFormat(options.output, options.format, delimiter);
  if (options.onInvalid !== 'report' && options.onInvalid !== 'fail') {
    throw new SluiceError('usage', '--on-invalid takes report or fail');
  }
  const interpretation = interpretationOf(options);
  const toStdout = options.output === '-';
  if (!toStdout && file !== '-' && path.resolve(file) === path.resolve(options.output)) {
    throw new SluiceError('usage', 'the output is the input');
  }
  const rejectsPath = options.rejects ?? (toStdout ? undefined : `${options.output}.rejects.csv`);
  const model = await (await openRegistry(options.registry)).resolve(options.model);
  const open = async (): Promise<{ source: ByteSource; sink: ByteSink }> => {
    const source = file === '-' ? fromStream(process.stdin) : await openFile(file, options.readBytes);
    try {
      const sink = toStdout ? openStreamSink(process.stdout, 'standard output') : await openFileSink(options.output);
      return { source, sink };
    } catch (error) {
      await source.close();
      throw error;
    }
  };
  let { source, sink } = await open();
  const { signal, dispose } = signalled();
  let counts: RunCounts = { rows: 0, scored: 0, rejected: 0, rejectedByCode: {}, details: [] };
  const progress = options.quiet ? null : new Progress(process.stderr, () => progressState(source, counts));
  let result: ScoreFileResult;
  try {
    result = await scoreFile({
      model,
      source,
      sink,
      again: async () => {
        ({ source, sink } = await open());
        return { source, sink };
      },
      ...(rejectsPath === undefined ? {} : { openRejects: () => openFileSink(rejectsPath) }),
      delimiter,
      output,
      passthrough: options.passthrough === '*' ? '*' : (options.passthrough?.split(',') ?? []),
      interpretation,
      failOnInvalid: options.onInvalid === 'fail',
      ...(options.evaluator === undefined ? {} : { engine: options.evaluator }),
      ...pick(options, 'workers', 'batchRows', 'blockBytes'),
      ...(options.maxRowBytes === undefined ? {} : { maxRecordBytes: options.maxRowBytes }),
      signal,
      onProgress: (c) => {
        counts = c;
      },
      onWorkerDeath: (reason) => {
        progress?.stop();
        process.stderr.write(`sluice: a worker died and is replaced: ${reason}\n`);
      },
    });
  } finally {
    dispose();
    progress?.stop();
  }
  const rejectsFile = result.rejected > 0 ? rejectsPath : undefined;
  if (options.json) {
    const text = `${JSON.stringify(summaryOf(model, result, source, sink, { file, ...options }, rejectsFile))}\n`;
    (toStdout ? process.stderr : process.stdout).write(text);
  } else if (!options.quiet) process.stderr.write(summaryText(model, result, rejectsFile));
  return result.rejected > 0 ? EXIT.rejected : EXIT.done;
}

function interpretationOf(options: ScoreOptions): InterpretationSpec | null {
  if (!options.interpretation) {
    if (options.top !== undefined || options.interpretBelow !== undefined) {
      throw new SluiceError('usage', '--top and --interpret-below need --interpretation');
    }
    return null;
  }
  const below = options.interpretBelow === undefined ? null : Number(options.interpretBelow);
  if (Number.isNaN(below)) throw new SluiceError('usage', '--interpret-below takes a number');
  return { effects: true, reasons: true, top: options.top ?? null, below };
}

const progressState = (source: ByteSource, counts: RunCounts) => ({
  rows: counts.rows,
  rejected: counts.rejected,
  bytesRead: source.bytesRead(),
  totalBytes: source.totalBytes,
});

/** The machine-readable summary; its keys are documented in docs/score.md. */
function summaryOf(
  model: ModelPackage,
  result: ScoreFileResult,
  source: ByteSource,
  sink: ByteSink,
  paths: { file: string; output: string },
  rejectsFile: string | undefined,
) {
  const usage = process.resourceUsage();
  return {
    input: paths.file,
    output: paths.output,
    rejects: rejectsFile ?? null,
    model: model.manifest.id,
    modelVersion: String(model.manifest.version),
    modelSha256: model.manifest.onnx.sha256,
    evaluator: result.evaluator,
    workers: result.workers,
    rows: result.rows,
    scored: result.scored,
    rejected: result.rejected,
    skipped: 0,
    rejectedByCode: result.rejectedByCode,
    bytesRead: source.bytesRead(),
    bytesWritten: sink.bytesWritten,
    seconds: round(result.seconds, 3),
    rowsPerSecond: Math.round(result.rows / Math.max(result.seconds, 1e-9)),
    cpuSeconds: round((usage.userCPUTime + usage.systemCPUTime) / 1e6, 3),
    peakMemoryBytes: usage.maxRSS * 1024,
  };
}

function summaryText(model: ModelPackage, r: ScoreFileResult, rejectsFile: string | undefined): string {
  const lines = [
    `${count(r.rows)} rows read = ${count(r.scored)} scored + ${count(r.rejected)} rejected, ` +
      `${r.seconds.toFixed(1)} s, ${count(Math.round(r.rows / Math.max(r.seconds, 1e-9)))} rows/s`,
    `model ${model.ref}, sha256 ${model.manifest.onnx.sha256.slice(0, 12)}…, ${r.evaluator}, ` +
      `${r.workers} worker${r.workers === 1 ? '' : 's'}, peak memory ${Math.round(process.resourceUsage().maxRSS / 1024)} MB`,
  ];
  if (r.rejected > 0) {
    const codes = Object.entries(r.rejectedByCode).map(([code, n]) => `${code} ${count(n)}`);
    lines.push(`rejected: ${codes.join(', ')}${rejectsFile === undefined ? '' : `; listed in ${rejectsFile}`}`);
  }
  return `${lines.join('\n')}\n`;
}

/** The delimiter an input is read with: the one named, else by its extension, else tab as on HTTP. */
export function inputDelimiter(file: string, name: string | undefined): string {
  if (name !== undefined) {
    if (!Object.hasOwn(DELIMITERS, name)) {
      throw new SluiceError('usage', `--delimiter takes ${Object.keys(DELIMITERS).join(', ')}`);
    }
    return DELIMITERS[name as DelimiterName];
  }
  return path.extname(file).toLowerCase() === '.csv' ? DELIMITERS.comma : DELIMITERS.tab;
}

const EXTENSIONS: Record<string, OutputFormat> = {
  '.csv': 'csv',
  '.tsv': 'tsv',
  '.json': 'json',
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
};

/** The output format: the one named, else by the extension, else delimited like the input. */
export function outputFormat(
  output: string,
  name: string | undefined,
  delimiter: string,
): { format: OutputFormat; delimiter: string } {
  const format = name ?? EXTENSIONS[path.extname(output).toLowerCase()] ?? (delimiter === '\t' ? 'tsv' : 'csv');
  switch (format) {
    case 'csv':
      return { format, delimiter: delimiter === '\t' ? ',' : delimiter };
    case 'tsv':
      return { format, delimiter: '\t' };
    case 'json':
    case 'ndjson':
      return { format, delimiter: ',' };
    default:
      throw new SluiceError('usage', '--format takes csv, tsv, json or ndjson');
  }
}

const round = (n: number, decimals: number): number => Number(n.toFixed(decimals));

/** The named keys of `from` that have a value. */
function pick<T extends object, K extends keyof T>(from: T, ...keys: K[]): { [P in K]?: NonNullable<T[P]> } {
  return Object.fromEntries(keys.filter((k) => from[k] !== undefined).map((k) => [k, from[k]])) as {
    [P in K]?: NonNullable<T[P]>;
  };
}
