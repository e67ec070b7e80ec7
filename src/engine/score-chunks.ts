// One input through a worker pool into one answer: how every door (file, pipe, upload) runs the engine.
import { type Block, RECORD_OK, RECORD_TOO_LONG } from '../core/block.ts';
import { SluiceError, tooMany } from '../core/errors.ts';
import type { Explained } from '../core/explained-work.ts';
import type { InputDeclaration } from '../core/input-declaration.ts';
import { SlabPool } from '../core/slabs.ts';
import { frameOf } from '../formats/choose-formatter.ts';
import { DEFAULT_RECORD_BYTES } from '../formats/columns/table-limits.ts';
import { checkDeclaration, declaredParts } from '../formats/declared-parts.ts';
import { decoderOverride } from '../formats/decode/decoder-override.ts';
import { columnsBeside, fitTable } from '../formats/delimited/column-types.ts';
import { type FitOptions, type FittedHeader, fitHeader, fitNames } from '../formats/delimited/header.ts';
import type { OutputFormat, OutputSpec } from '../formats/write/formatter.ts';
import { ANSWER_KEYS, outputColumns, refuseHidden } from '../formats/write/prediction-fields.ts';
import { leastEvaluations, overBudget, tighter } from '../inference/explain/budget.ts';
import { pairsRefused } from '../inference/explain/explainer.ts';
import type { InterpretationSpec } from '../inference/explain/interpretation.ts';
import {
  type CutOptions,
  cutBlocks,
  cutWhole,
  type Leased,
  movedBlocks,
  type PiecePlace,
  withoutPlace,
} from '../io/source/block-cutter.ts';
import type { Chunks } from '../io/source/byte-source.ts';
import { DelimitedScanner } from '../io/source/delimited-scanner.ts';
import { JsonScanner } from '../io/source/json-scanner.ts';
import type { RecordScanner } from '../io/source/record-scanner.ts';
import { tableBlocks } from '../io/source/table-blocks.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { Account, GoesOn, RunCounts, WrittenBlock } from './counts.ts';
import type { ScoredPart, StreamSpec } from './protocol.ts';
import { runBlock, runStream } from './run-stream.ts';
import type { WorkerPool } from './worker-pool.ts';

export const DEFAULT_BLOCK_BYTES = 512 * 1024;
/** Of a file; tables of columns become lines that are three times as long as those of CSV. */
export const blockBytesOf = (isTable: boolean): number => (isTable ? 2 : 1) * DEFAULT_BLOCK_BYTES;
/** A stream whose first block has at least so many bytes counts as large. */
const LARGE_BYTES = 128 * 1024;
const DEFAULT_MAX_COLUMNS = 2000;
const DEFAULT_MAX_DEPTH = 16;
/** Created once: an abort without a reason creates an error with a stack each time. */
const OVER = new SluiceError('cancelled', 'the stream is over');
/** Something was written before the first block, so that it is written without a head. */
const BEHIND: GoesOn = { blocks: 0, rows: 0, inputEnd: 0, written: Infinity };

export type InputFormat =
  /** `tokens`: what is passed through are tokens of JSON, which tell a value that is not there from an empty text. */
  (
    | { format: 'delimited'; delimiter: string; tokens?: boolean }
    | { format: 'json' }
    /** `table`: the lines were made of columns, so that they lie nowhere in the input. */
    | { format: 'ndjson'; table?: boolean }
  ) & {
    /** What its owner declared of it. Default: nothing. */
    declared?: InputDeclaration;
  };

/** Whether the first record names the fields. */
export const hasHeader = ({ format, declared }: InputFormat): boolean =>
  format === 'delimited' && (declared?.columns?.names ?? null) === null;

/** How predictions are written; `copy` as in `OutputSpec`. */
export interface RunOutput {
  format: OutputFormat;
  delimiter: string;
  copy?: boolean;
  cells?: boolean;
}

export interface StreamLimits {
  /** A longer record is rejected (delimited, NDJSON) or ends the input (JSON array). */
  maxRecordBytes?: number;
  /** More records than this end the input. */
  maxRows?: number;
  maxColumns?: number;
  /** Deepest nesting of a JSON record. */
  maxDepth?: number;
}

/** Rows from 1, `last` inclusive. */
export interface RowRange {
  first: number;
  last: number;
}

export interface ScoreChunksOptions {
  model: ModelPackage;
  pool: WorkerPool;
  chunks: Chunks;
  /** The whole input, where it is in memory already; `chunks` is not read then. Small inputs take a shortcut. */
  whole?: Uint8Array | null;
  input: InputFormat;
  output: RunOutput;
  passthrough: readonly string[] | '*';
  /** Lines of the rejects file have no passthrough columns. Default: they have all that are named. */
  listsNone?: boolean;
  /** Add effects and reasons to the predictions. */
  interpretation?: InterpretationSpec | null;
  limits?: StreamLimits;
  /** A unit of its own: its counts are compared with the rows that went in. */
  account: Account;
  write: (bytes: Uint8Array) => Promise<void>;
  writeRejects?: (lines: string) => Promise<void>;
  onPart?: (part: ScoredPart) => void;
  /** Called after all of a block was written, in order. Not of a `whole` input. An error it throws ends the run. */
  onBlock?: (written: WrittenBlock) => void | Promise<void>;
  /** Not of a `whole` input. */
  goesOn?: GoesOn;
  /** Score the blocks that have one of these rows only; other rows are read and skipped. Not of a `whole` input. */
  only?: RowRange;
  /** As in `CutOptions`. Not of a `whole` input. */
  onConsumed?: CutOptions['onConsumed'];
  failOnInvalid?: boolean;
  /** The input is a piece of a longer one and not its first: where it lies there. Its answer has no head. Not of a `whole` input. */
  place?: PiecePlace;
  blockBytes?: number;
  /** The only stream of the process: it may use resources that many streams could not share. Default: no. */
  alone?: boolean;
  /** Flush incomplete blocks when no byte arrived for this long, ms. */
  idleMs?: number;
  /** Inputs of one owner share its turns at the workers; absent: the input has its own. */
  owner?: string;
  signal?: AbortSignal;
}

/**
 * Scores the whole input.
 * @throws SluiceError header_mismatch, wrong_delimiter, empty_input, malformed_json, truncated_input, limit_exceeded,
 *   cancelled, or what the chunks, the workers and `write` throw
 */
export async function scoreChunks(asked: ScoreChunksOptions): Promise<Readonly<RunCounts>> {
  const options = withNamedColumns(asked);
  const { pool, input } = options;
  if (options.interpretation) assertExplainable(options.model, options.interpretation);
  if (options.whole) return scoreWhole(options, options.whole);
  // Two blocks a worker in the making, and as many read or waiting to be written.
  // The line kernel sees slabs in one memory only; the reference path does without it.
  const together = options.alone === true && decoderOverride() === null;
  const slabs = new SlabPool(pool.workers * 3 + 1, options.blockBytes ?? DEFAULT_BLOCK_BYTES, together);
  const stop = new AbortController();
  const onAbort = () => stop.abort(options.signal?.reason);
  options.signal?.addEventListener('abort', onAbort, { once: true });
  if (options.signal?.aborted) onAbort();
  const release = options.account.flow.hold(() => slabs.held);
  const { explained } = options.account.flow;
  const header = new HeaderTaker(options);
  const common = {
    slabs,
    signal: stop.signal,
    flow: options.account.flow,
    ...(options.idleMs === undefined ? {} : { idleMs: options.idleMs }),
    ...(options.onConsumed ? { onConsumed: options.onConsumed } : {}),
  };
  const { table } = options.chunks;
  // The reference path reads the lines of a table.
  const whole =
    table && decoderOverride() === null
      ? tableBlocks(table, { ...common, maxRecordBytes: maxRecordBytes(options.limits) })
      : cutBlocks(options.chunks, {
          ...common,
          scanner: scannerFor(options),
          ...(hasHeader(input)
            ? { onHeader: header.take, headApart: options.place !== undefined }
            : { middle: options.place !== undefined }),
        });
  const placed = input.format === 'ndjson' && input.table ? withoutPlace(whole) : whole;
  const cut = options.place ? movedBlocks(placed, options.place) : placed;
  try {
    // The header decides how the rest is read, so the first block is read before the stream is opened.
    const first = await cut.next();
    const spec = streamSpec(options, header.fitted);
    const { only } = options;
    const isBehind = only !== undefined && first.value !== undefined && first.value.faults.length < only.first;
    const large = first.value !== undefined && first.value.length >= LARGE_BYTES;
    const stream = pool.open(large ? { ...spec, large } : spec, told(options), options.owner);
    try {
      return await runStream({
        blocks: async function* (signal) {
          signal.addEventListener('abort', () => stop.abort(signal.reason), { once: true });
          let rows = 0;
          let next = options.goesOn ? await skip(options.goesOn, first, cut, slabs) : first;
          for (; !next.done; next = await cut.next()) {
            const { firstRow, faults, lease } = next.value;
            if (only && (firstRow > only.last || firstRow + faults.length <= only.first)) {
              slabs.release(lease);
              if (firstRow > only.last) return;
              continue;
            }
            rows += faults.length;
            explained.rowsIn += faults.length;
            if (rows > (options.limits?.maxRows ?? Infinity)) throw tooMany('rows', options.limits!.maxRows!);
            yield next.value;
          }
        },
        stream,
        slabs,
        ...writeOptions(options, spec),
        ...(isBehind ? { goesOn: BEHIND } : {}),
      });
    } finally {
      stream.close();
    }
  } catch (error) {
    if (options.signal?.aborted && !(error instanceof SluiceError)) {
      throw new SluiceError('cancelled', 'the run was cancelled', { cause: error });
    }
    throw error;
  } finally {
    options.signal?.removeEventListener('abort', onAbort);
    stop.abort(OVER);
    release();
    await cut.return();
  }
}

/**
 * Fits a table to the model, and names the columns that `*` passes through where the output needs their names before the first row.
 * @throws SluiceError bad_type | usage: the names are not known before all records were read
 */
function withNamedColumns(options: ScoreChunksOptions): ScoreChunksOptions {
  const { input, chunks, output, model, passthrough } = options;
  const declared = input.declared?.columns;
  const { columns } = chunks;
  if (columns) fitTable(columns, model.manifest, passthrough, declared);
  else if (input.format === 'ndjson' && input.table) throw new Error('the columns of a table were lost on their way');
  if (passthrough !== '*' || input.format === 'delimited' || (output.format !== 'csv' && output.format !== 'tsv')) {
    return options;
  }
  if (!columns) {
    throw new SluiceError(
      'usage',
      `passthrough: * is not possible from JSON to ${output.format}, whose header names all columns: name those to pass through`,
    );
  }
  return { ...options, passthrough: columnsBeside(columns.names, model.manifest, declared), listsNone: true };
}

/** Who hears what of the effects is done. */
function told({ interpretation, account }: ScoreChunksOptions): ((more: Explained) => void) | undefined {
  return interpretation ? (more) => account.flow.explained.add(more) : undefined;
}

type Cut = AsyncGenerator<Block & Leased, void, void>;
type NextBlock = Awaited<ReturnType<Cut['next']>>;

/** The first block behind those that were written before. @throws SluiceError checkpoint_mismatch: they are not cut as they were */
async function skip(goesOn: GoesOn, first: NextBlock, cut: Cut, slabs: SlabPool): Promise<NextBlock> {
  let next = first;
  for (let [skipped, rows] = [0, 0]; skipped < goesOn.blocks; skipped++) {
    if (next.done)
      throw new SluiceError('checkpoint_mismatch', 'the input is shorter than when the run was interrupted');
    const { faults, inputEnd, lease } = next.value;
    rows += faults.length;
    const last = skipped + 1 === goesOn.blocks;
    if (last && (rows !== goesOn.rows || inputEnd !== goesOn.inputEnd)) {
      throw new SluiceError(
        'checkpoint_mismatch',
        'the rows of the input are not those of the run that was interrupted',
      );
    }
    await goesOn.onBlock?.(next.value);
    slabs.release(lease);
    next = await cut.next();
  }
  return next;
}

/** An input that is in memory as a whole. */
async function scoreWhole(options: ScoreChunksOptions, whole: Uint8Array): Promise<Readonly<RunCounts>> {
  const { pool, input, limits } = options;
  const header = new HeaderTaker(options);
  const block = cutWhole(whole, {
    scanner: scannerFor(options),
    ...(hasHeader(input) ? { onHeader: header.take } : {}),
  });
  if ((block?.faults.length ?? 0) > (limits?.maxRows ?? Infinity)) throw tooMany('rows', limits!.maxRows!);
  const spec = streamSpec(options, header.fitted);
  const stream = pool.open(spec, told(options), options.owner);
  options.account.flow.explained.rowsIn += block?.faults.length ?? 0;
  try {
    return await runBlock(block, { stream, ...writeOptions(options, spec) });
  } finally {
    stream.close();
  }
}

/** Consumes the header row of delimited text, or does with names that were declared instead. */
class HeaderTaker {
  fitted: FittedHeader | null = null;
  readonly #options: ScoreChunksOptions;

  /** @throws SluiceError usage | header_mismatch for declarations that do not fit the model */
  constructor(options: ScoreChunksOptions) {
    this.#options = options;
    const { input, model, passthrough } = options;
    if (!input.declared) return;
    checkDeclaration(input.declared, model.manifest, passthrough);
    const names = input.declared.columns?.names ?? null;
    if (input.format === 'delimited' && names !== null) this.fitted = fitNames(names, this.#fit(input.delimiter));
  }

  #fit(delimiter: string): FitOptions {
    const { input, limits, model, passthrough } = this.#options;
    const maxColumns = limits?.maxColumns ?? DEFAULT_MAX_COLUMNS;
    return { manifest: model.manifest, delimiter, passthrough, maxColumns, declared: input.declared };
  }

  /** @throws SluiceError limit_exceeded | header_mismatch | wrong_delimiter */
  readonly take = ({ bytes, fault }: { bytes: Buffer; fault: number }): void => {
    const { input, limits } = this.#options;
    if (input.format !== 'delimited') return;
    if (fault === RECORD_TOO_LONG) {
      throw tooMany('row_bytes', limits?.maxRecordBytes ?? DEFAULT_RECORD_BYTES, 'bytes');
    }
    if (fault !== RECORD_OK) throw new SluiceError('header_mismatch', 'the header row is malformed');
    this.fitted = fitHeader(bytes, this.#fit(input.delimiter));
  };
}

function writeOptions(options: ScoreChunksOptions, spec: StreamSpec) {
  const frame = frameOf(spec.output, options.model.manifest);
  return {
    frame: options.place ? { ...frame, head: '' } : frame,
    account: options.account,
    model: options.model.ref,
    write: options.write,
    recycle: (buffer: ArrayBuffer) => options.pool.recycle(buffer),
    ...(options.writeRejects ? { writeRejects: options.writeRejects } : {}),
    ...(options.onPart ? { onPart: options.onPart } : {}),
    ...(options.onBlock ? { onBlock: options.onBlock } : {}),
    ...(options.goesOn ? { goesOn: options.goesOn } : {}),
    ...(options.failOnInvalid ? { failOnInvalid: true } : {}),
    ...(options.signal ? { signal: options.signal } : {}),
  };
}

/**
 * @throws SluiceError interpretation_unavailable when the package has nothing to compare an application with, or pairs of
 *   columns are asked for and its method tells none | interpretation_over_budget when its model has to be asked, and more often than the limits allow
 */
export function assertExplainable({ ref, manifest }: ModelPackage, spec?: InterpretationSpec | null): void {
  const { background, method, max_evaluations } = manifest.explain ?? {};
  if (background === undefined)
    throw new SluiceError('interpretation_unavailable', `${ref} has no background sample (explain.background)`);
  const limit = tighter(spec?.maxEvaluations ?? null, max_evaluations ?? null);
  const least = leastEvaluations(manifest.columns.length);
  const isAsked = method === 'exact' || method === 'sampling';
  const refused = pairsRefused(manifest, spec?.interactions);
  if (refused) throw refused;
  if (isAsked && limit !== null && limit < least) throw overBudget(limit, least);
}

const maxRecordBytes = (limits: StreamLimits | undefined): number => limits?.maxRecordBytes ?? DEFAULT_RECORD_BYTES;

/** What finds the ends of records in an input of this format. */
export function scannerFor({ input, limits }: Pick<ScoreChunksOptions, 'input' | 'limits'>): RecordScanner {
  const most = maxRecordBytes(limits);
  switch (input.format) {
    case 'delimited':
      return new DelimitedScanner(input.delimiter.charCodeAt(0), most);
    case 'ndjson':
      return new DelimitedScanner(-1, most, -1);
    case 'json':
      return new JsonScanner(
        most,
        limits?.maxDepth ?? DEFAULT_MAX_DEPTH,
        decoderOverride() === null ? undefined : Infinity,
      );
  }
}

function streamSpec(options: ScoreChunksOptions, header: FittedHeader | null): StreamSpec {
  const { input, output, model } = options;
  const interpretation = options.interpretation ?? null;
  const ids = options.passthrough === '*' || options.listsNone ? [] : options.passthrough;
  const listed = options.writeRejects ? { rejectLines: true, ...(ids.length > 0 ? { listed: ids } : {}) } : {};
  if (input.format === 'delimited') {
    if (!header) throw new SluiceError('empty_input', 'the input has no header row');
    const spec: OutputSpec = {
      ...output,
      passthrough: header.passthrough,
      passthroughIsJson: input.tokens === true,
      interpretation,
    };
    refuseHiddenKeys(spec, model.manifest);
    const layout = header.layout;
    return { input: { format: 'delimited', layout, ...declaredParts(input.declared) }, output: spec, ...listed };
  }
  const passthrough = options.passthrough === '*' ? ['*'] : options.passthrough;
  const spec: OutputSpec = { ...output, passthrough, passthroughIsJson: true, interpretation };
  refuseHiddenKeys(spec, model.manifest);
  return {
    input: {
      format: 'json',
      layout: {
        passthrough: options.passthrough,
        reserved: ANSWER_KEYS,
        outcome: model.manifest.outcome ?? null,
        maxColumns: options.limits?.maxColumns ?? DEFAULT_MAX_COLUMNS,
        ...(input.declared?.columns ? { declared: input.declared.columns } : {}),
        ...(input.declared?.encoding ? { encoding: input.declared.encoding } : {}),
      },
      ...declaredParts(input.declared),
    },
    output: spec,
    ...listed,
  };
}

/** In JSON a passthrough column named like a field of a prediction would hide it, and a table would have two columns of a name. */
function refuseHiddenKeys(spec: OutputSpec, manifest: Manifest): void {
  const isJson = spec.format === 'json' || spec.format === 'ndjson';
  const own = isJson ? ANSWER_KEYS : outputColumns(manifest, [], spec.interpretation).map(({ name }) => name);
  refuseHidden(spec.passthrough, own);
}
