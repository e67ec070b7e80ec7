// `sluice score`: a portfolio file in, a prediction for every row out.
import { type Command, Option } from 'commander';
import { SluiceError } from '../../core/errors.ts';
import { COMPRESSIONS, FILE_FORMATS, type FileFormat, KNOWN_ENDINGS, namedFormat } from '../../core/file-format.ts';
import { DELIMITERS, type DelimiterName } from '../../io/decode/header.ts';
import { STDIO } from '../../runs/endpoints.ts';
import type { RunSpec } from '../../runs/spec.ts';
import { wholeNumber } from './common.ts';
import { driveRun } from './drive-run.ts';

export interface ScoreOptions {
  model: string;
  output: string;
  rejects?: string;
  delimiter?: string;
  format?: string;
  compression?: string;
  inputFormat?: string;
  inputCompression?: string;
  metricsFile?: string;
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
    .option(
      '--format <name>',
      'format of the output: csv, tsv, ndjson, json, parquet (default: by the name of the output)',
    )
    .option('--input-format <name>', 'format of the input: csv, tsv, ndjson, json, parquet (default: by its name)')
    .addOption(
      new Option('--input-compression <name>', 'of the input (default: by its name)').choices([...COMPRESSIONS]),
    )
    .addOption(new Option('--compression <name>', 'of the output (default: by its name)').choices([...COMPRESSIONS]))
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
    .option('--metrics-file <file>', 'leave the metrics there when the run is over, for a collector of text files')
    .option('--json', 'print a machine-readable summary (on standard error when predictions go to standard output)')
    .option('--quiet', 'no progress, no summary')
    .action(async (file: string, options: ScoreOptions) => {
      process.exitCode = await score(file, options);
    });
}

/** Runs the command; returns its exit code. @throws SluiceError whatever ends it */
export async function score(file: string, options: ScoreOptions): Promise<number> {
  const { registry, json, quiet, metricsFile } = options;
  return driveRun(specOf(file, options), { name: 'score', registry, json, quiet, metricsFile });
}

/** The run that the flags say. @throws SluiceError usage */
export function specOf(file: string, options: ScoreOptions): RunSpec {
  const delimiter = delimiterNamed('--delimiter', options.delimiter);
  const from = endpointSaid('--input-format', file, {
    format: formatNamed('--input-format', options.inputFormat),
    delimiter,
    // Tab-delimited, as on HTTP, where nothing else says what it is.
    otherwise: delimiter === undefined ? 'tsv' : 'csv',
  });
  const to = endpointSaid('--format', options.output, {
    format: formatNamed('--format', options.format),
    delimiter: undefined,
    otherwise: likeInput(from.format, from.delimiter),
  });
  const rejects = options.rejects ?? (options.output === STDIO ? undefined : `${options.output}.rejects.csv`);
  const batchRows = options.batchRows;
  return {
    file: '',
    model: options.model,
    source: {
      ...placeOf(file),
      format: from.format,
      delimiter: from.delimiter,
      ...(options.inputCompression === undefined ? {} : { compression: options.inputCompression }),
    } as RunSpec['source'],
    sink: {
      ...placeOf(options.output),
      format: to.format,
      delimiter: to.format === 'tsv' ? 'tab' : from.delimiter === 'tab' ? 'comma' : from.delimiter,
      ...(options.compression === undefined ? {} : { compression: options.compression }),
    } as RunSpec['sink'],
    ...(rejects === undefined ? {} : { dead_letter: { type: 'file', path: rejects } }),
    on_invalid: onInvalidOf(options.onInvalid),
    delivery: 'at_least_once',
    score: {
      ...DEFAULT_SCORE,
      ...interpretationFlags(options),
      passthrough: options.passthrough === '*' ? '*' : (options.passthrough?.split(',') ?? []),
      ...(options.workers === undefined ? {} : { workers: options.workers }),
      ...(options.evaluator === undefined ? {} : { evaluator: options.evaluator }),
      ...(options.maxRowBytes === undefined ? {} : { record_bytes: options.maxRowBytes }),
    },
    tuning: {
      ...(batchRows === undefined ? {} : { batchRows }),
      ...(options.blockBytes === undefined ? {} : { blockBytes: options.blockBytes }),
      ...(options.readBytes === undefined ? {} : { readBytes: options.readBytes }),
    },
  } as RunSpec;
}

/** What a pipeline has by default; written here because its schema must not be loaded to score a file. */
const DEFAULT_SCORE = { interpretation: 'none', batch_rows: 1024, batch_wait_ms: 20, evaluator: 'auto', record_bytes: 1024 * 1024 } as const; // biome-ignore format: one line

const placeOf = (name: string) => (name === STDIO ? { type: 'stdio' } : { type: 'file', path: name });

interface Said {
  format: FileFormat | undefined;
  delimiter: DelimiterName | undefined;
  otherwise: FileFormat;
}

/** Format and delimiter of an end of the run, in the words of a pipeline. */
function endpointSaid(flag: string, name: string, { format, delimiter, otherwise }: Said) {
  const named = namedFormat(name);
  // Who names the delimiter of a file has said that it is delimited text.
  const found = format ?? named.format ?? (named.ending === '' || delimiter !== undefined ? otherwise : null);
  if (found === null) {
    const known = `known are ${KNOWN_ENDINGS}`;
    throw new SluiceError('usage', `${name}: ${named.ending} is no format; ${known}, or name one with ${flag}`);
  }
  return { format: found, delimiter: delimiter ?? (found === 'tsv' ? ('tab' as const) : ('comma' as const)) };
}

/** What goes to standard output, or to a name without an ending, is like what came in. */
function likeInput(format: FileFormat, delimiter: DelimiterName): FileFormat {
  if (format === 'parquet') return 'ndjson';
  if (format === 'json' || format === 'ndjson') return format;
  return delimiter === 'tab' ? 'tsv' : 'csv';
}

function formatNamed(flag: string, name: string | undefined): FileFormat | undefined {
  if (name === undefined || (FILE_FORMATS as readonly string[]).includes(name)) return name as FileFormat | undefined;
  throw new SluiceError('usage', `${flag} takes ${FILE_FORMATS.slice(0, -1).join(', ')} or ${FILE_FORMATS.at(-1)}`);
}

function delimiterNamed(flag: string, name: string | undefined): DelimiterName | undefined {
  if (name === undefined || Object.hasOwn(DELIMITERS, name)) return name as DelimiterName | undefined;
  throw new SluiceError('usage', `${flag} takes ${Object.keys(DELIMITERS).join(', ')}`);
}

function onInvalidOf(what: string): 'report' | 'fail' {
  if (what === 'report' || what === 'fail') return what;
  throw new SluiceError('usage', '--on-invalid takes report or fail');
}

function interpretationFlags(options: ScoreOptions) {
  if (!options.interpretation) {
    if (options.top !== undefined || options.interpretBelow !== undefined) {
      throw new SluiceError('usage', '--top and --interpret-below need --interpretation');
    }
    return {};
  }
  const below = options.interpretBelow === undefined ? undefined : Number(options.interpretBelow);
  if (Number.isNaN(below)) throw new SluiceError('usage', '--interpret-below takes a number');
  return {
    interpretation: 'effects' as const,
    ...(options.top === undefined ? {} : { top_effects: options.top }),
    ...(below === undefined ? {} : { interpret_below: below }),
  };
}

/** The delimiter a file is written with: the one named, else by its ending, else tab as on HTTP. */
export function inputDelimiter(file: string, name: string | undefined): string {
  const named = delimiterNamed('--delimiter', name);
  return DELIMITERS[named ?? (namedFormat(file).format === 'csv' ? 'comma' : 'tab')];
}
