// `sluice score`: reads a portfolio file and writes a prediction for every row.

import type { Command } from 'commander';
import { gateSaid } from '../../config/gate-flags.ts';
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { SluiceError } from '../../core/errors.ts';
import type { FileFormat } from '../../core/file-format.ts';
import { isPattern, REJECTS_ENDING } from '../../core/file-names.ts';
import { passthroughNames } from '../../core/input-declaration.ts';
import { DELIMITERS, type DelimiterName } from '../../formats/delimited/header.ts';
import { KNOWN_ENDINGS, namedFormat } from '../../formats/formats.ts';
import { pipelineOf } from '../../runs/complete-pipeline.ts';
import { RUN_OPTIONS } from '../../runs/plugins/plugin-list.ts';
import { type Resume, type RunSpec, refuseContradictions } from '../../runs/spec.ts';
import { declaredSaid } from './declared-words.ts';
import { driveRun } from './drive-run.ts';
import { addFlags, camelCase } from './flags/command-spec.ts';
import { SCORE_COMMANDS, type ScoreFlags } from './flags/score-flags.ts';
import { hintingAtInspection } from './inspect-hint.ts';

export type ScoreOptions = ScoreFlags;

export function addScoreCommand(program: Command): void {
  addFlags(program.command('score'), SCORE_COMMANDS.score).action(
    async (file: string | undefined, options: ScoreOptions) => {
      process.exitCode = await score(file, options);
    },
  );
}

/** Runs the command and returns its exit code. @throws SluiceError any error that ends the command */
export async function score(file: string | undefined, options: ScoreOptions): Promise<number> {
  const { registry, json, quiet, metricsFile, pushGateway } = options;
  const spec = await specOfScore(file, options);
  const driven = { name: 'score', registry, json, quiet, metricsFile, pushGateway };
  return hintingAtInspection({ spec, registry }, () => driveRun(spec, driven));
}

async function specOfScore(file: string | undefined, options: ScoreOptions): Promise<RunSpec> {
  if (options.plan !== undefined) {
    // Imported only for shards.
    const { specOfShard } = await import('./score-shard.ts');
    return specOfShard(file, { ...options, plan: options.plan }, process.env, specOf);
  }
  if (options.shard !== undefined) throw new SluiceError('usage', '--shard needs --plan');
  if (file === undefined) throw new SluiceError('usage', 'missing FILE (or use --plan)');
  return specOf(file, options);
}

/** Turns the flags into the spec of a run. @throws SluiceError usage */
export function specOf(file: string, options: ScoreOptions): RunSpec {
  const { delimiter } = options;
  const from = endpointSaid('--input-format', file, {
    format: options.inputFormat,
    delimiter,
    // Without a format, the default is tab-delimited, as over HTTP.
    otherwise: delimiter === undefined ? 'tsv' : 'csv',
  });
  const to = endpointSaid('--format', options.output, {
    format: options.format,
    delimiter: undefined,
    otherwise: likeInput(from.format, from.delimiter),
  });
  const rejects = options.rejects ?? (options.output === STDIO ? undefined : `${options.output}${REJECTS_ENDING}`);
  const { batchRows, blockBytes, readBytes } = options;
  const source = {
    ...placeOf(file),
    ...from,
    ...(options.inputCompression === undefined ? {} : { compression: options.inputCompression }),
    ...declaredSaid(options),
    ...totalsSaid(options),
  } as RunSpec['source'];
  const passthrough = passthroughNames(options.passthrough);
  refuseContradictions(source, from.format, passthrough);
  const gate = gateSaid(options);
  return {
    ...pipelineOf({
      model: options.model,
      source,
      sink: {
        ...placeOf(options.output),
        format: to.format,
        delimiter: to.format === 'tsv' ? 'tab' : from.delimiter === 'tab' ? 'comma' : from.delimiter,
        ...(options.compression === undefined ? {} : { compression: options.compression }),
      } as RunSpec['sink'],
      ...(rejects === undefined ? {} : { dead_letter: { type: 'file', path: rejects } }),
      on_invalid: options.onInvalid,
      ...(options.allowEmpty ? { allow_empty: true } : {}),
      ...(isOff(options) ? { manifest: false } : {}),
      ...(options.signKey === undefined ? {} : { sign_key: options.signKey }),
      ...(options.requireLock ? { require_lock: true } : {}),
      ...(options.requireSignature === undefined ? {} : { require_signature: options.requireSignature }),
      ...(options.requireSigner === undefined ? {} : { require_signer: signersSaid(options.requireSigner) }),
      ...(options.requireApproval === undefined ? {} : { require_approval: options.requireApproval }),
      ...(options.deadline === undefined ? {} : { deadline: options.deadline }),
      ...featuresIn(options),
      ...(gate === null ? {} : { gate }),
      ...(options.report === undefined ? {} : { report: options.report }),
      ...(options.runRecords === undefined ? {} : { run_records: options.runRecords }),
      score: {
        ...interpretationFlags(options),
        passthrough,
        ...(options.workers === undefined ? {} : { workers: options.workers }),
        ...(options.evaluator === undefined ? {} : { evaluator: options.evaluator }),
        ...(options.maxRowBytes === undefined ? {} : { record_bytes: options.maxRowBytes }),
        ...(options.maxColumns === undefined ? {} : { max_columns: options.maxColumns }),
      },
    }),
    resume: resumeFlags(options),
    ...(options.rejects === undefined ? { list_only_if_any: true as const } : {}),
    tuning: {
      ...(batchRows === undefined ? {} : { batchRows }),
      ...(blockBytes === undefined ? {} : { blockBytes }),
      ...(readBytes === undefined ? {} : { readBytes }),
    },
  };
}

/** The options of run features, as keys of a pipeline. */
function featuresIn(options: ScoreOptions): Record<string, unknown> {
  const flags = options as unknown as Readonly<Record<string, unknown>>;
  const entries = Object.keys(RUN_OPTIONS).map((name) => [name, flags[camelCase(name)]] as const);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

/** @throws SluiceError usage */
function signersSaid(text: string): string[] {
  const names = text.split(',').map((name) => name.trim());
  if (names.every((name) => name !== '')) return names;
  throw new SluiceError('usage', '--require-signer has an empty name');
}

function resumeFlags({ resume, restart }: ScoreOptions): Resume {
  if (resume && restart) throw new SluiceError('usage', '--resume and --restart are mutually exclusive');
  return restart ? 'restart' : resume ? 'asked' : 'no';
}

/** Control totals from flags, as keys of a pipeline. @throws SluiceError usage */
function totalsSaid({ expectRows: rows, expectSha256: sha256, controlFile, trailer }: ScoreOptions) {
  if (sha256 !== undefined && !/^[0-9A-Fa-f]{64}$/.test(sha256)) {
    throw new SluiceError('usage', '--expect-sha256 takes 64 hexadecimal digits');
  }
  const expect = { ...(rows === undefined ? {} : { rows }), ...(sha256 === undefined ? {} : { sha256 }) };
  return {
    ...(Object.keys(expect).length === 0 ? {} : { expect }),
    ...(controlFile === undefined ? {} : { control: { file: controlFile } }),
    ...(trailer === undefined ? {} : { trailer: { marker: trailer } }),
  };
}

/** The parser represents `--no-manifest` as `manifest: false`. */
const isOff = (options: ScoreOptions): boolean => (options as { manifest?: boolean }).manifest === false;

const placeOf = (name: string) => (name === STDIO ? { type: 'stdio' } : { type: 'file', path: name });

interface Said {
  format: FileFormat | undefined;
  delimiter: DelimiterName | undefined;
  otherwise: FileFormat;
}

/** Format and delimiter of an input or output, as keys of a pipeline. */
function endpointSaid(flag: string, name: string, { format, delimiter, otherwise }: Said) {
  const named = namedFormat(name);
  if (named.ending === '' && isPattern(name) && format === undefined && delimiter === undefined) {
    throw new SluiceError(
      'usage',
      `${name}: the pattern names no format; add an extension such as .csv, or use ${flag}`,
    );
  }
  // A configured delimiter means that the format is delimited text.
  const found = format ?? named.format ?? (named.ending === '' || delimiter !== undefined ? otherwise : null);
  if (found === null) {
    const known = `supported: ${KNOWN_ENDINGS}`;
    throw new SluiceError('usage', `${name}: ${named.ending} is not a format; ${known}, or use ${flag}`);
  }
  return { format: found, delimiter: delimiter ?? (found === 'tsv' ? ('tab' as const) : ('comma' as const)) };
}

/** The default format of standard output and of names without an extension, derived from the input format. */
function likeInput(format: FileFormat, delimiter: DelimiterName): FileFormat {
  if (format === 'parquet') return 'ndjson';
  if (format === 'arrow') return 'arrow';
  if (format === 'json' || format === 'ndjson') return format;
  return delimiter === 'tab' ? 'tsv' : 'csv';
}

function interpretationFlags(options: ScoreOptions) {
  if (!options.interpretation) {
    const { top, interpretBelow, interactions, maxEvaluations } = options;
    if ([top, interpretBelow, interactions, maxEvaluations].some((given) => given !== undefined)) {
      const flags = '--top, --interpret-below, --interactions and --max-evaluations';
      throw new SluiceError('usage', `${flags} need --interpretation`);
    }
    return {};
  }
  return {
    interpretation: 'effects' as const,
    ...(options.top === undefined ? {} : { top_effects: options.top }),
    ...(options.interpretBelow === undefined ? {} : { interpret_below: options.interpretBelow }),
    ...(options.interactions === undefined ? {} : { interactions: options.interactions }),
    ...(options.maxEvaluations === undefined ? {} : { max_evaluations: options.maxEvaluations }),
  };
}

/**
 * The delimiter of delimited text. Without a configured delimiter: comma if the file extension is that of csv,
 * otherwise tab, as over HTTP.
 */
export const inputDelimiter = (file: string, name: DelimiterName | undefined): string =>
  DELIMITERS[name ?? (namedFormat(file).format === 'csv' ? 'comma' : 'tab')];
