// Settings of a stream: how to read the input and write the predictions. The settings are determined before the first
// block.
import { RECORD_OK, RECORD_TOO_LONG } from '../core/block.ts';
import { SluiceError, tooMany } from '../core/errors.ts';
import type { InputDeclaration } from '../core/input-declaration.ts';
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
import type { Chunks } from '../io/source/byte-source.ts';
import { DelimitedScanner } from '../io/source/delimited-scanner.ts';
import { JsonScanner } from '../io/source/json-scanner.ts';
import type { RecordScanner } from '../io/source/record-scanner.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { StreamSpec } from './protocol.ts';

const DEFAULT_MAX_COLUMNS = 2000;
/** Number of columns that a record may have in addition to those of the model. */
const OTHER_COLUMNS = 100;

/**
 * Maximum number of columns of a record: the configured limit, or more if the model itself has at least as many
 * columns.
 */
export const columnLimit = ({ columns }: ModelPackage['manifest'], configured = DEFAULT_MAX_COLUMNS): number =>
  Math.max(configured, columns.length >= configured ? columns.length + OTHER_COLUMNS : 0);
const DEFAULT_MAX_DEPTH = 16;

export type InputFormat =
  /** `tokens`: passthrough values are JSON tokens, so that a missing value differs from an empty text. */
  (
    | { format: 'delimited'; delimiter: string; tokens?: boolean }
    | { format: 'json' }
    /** `table`: the lines were converted from columns, so they have no byte offset in the input. */
    | { format: 'ndjson'; table?: boolean }
  ) & {
    /** Declared format of the input. Default: no declaration. */
    declared?: InputDeclaration;
  };

/** Whether the first record is a header with the field names. */
export const hasHeader = ({ format, declared }: InputFormat): boolean =>
  format === 'delimited' && (declared?.columns?.names ?? null) === null;

/** How predictions are written; `copy` is described in `OutputSpec`. */
export interface RunOutput {
  format: OutputFormat;
  delimiter: string;
  copy?: boolean;
  cells?: boolean;
  /** Names of the members that the sink adds to every prediction in JSON. */
  added?: readonly string[];
}

export interface StreamLimits {
  /**
   * Maximum record length in bytes. A longer record is rejected (delimited, NDJSON), or ends the input with an error
   * (JSON array).
   */
  maxRecordBytes?: number;
  /** Maximum number of records. More records end the input with an error. */
  maxRows?: number;
  maxColumns?: number;
  /** Maximum nesting depth of a JSON record. */
  maxDepth?: number;
}

/** Options of a stream that determine how records are found, read and written. */
export interface StreamOptions {
  model: ModelPackage;
  chunks: Chunks;
  input: InputFormat;
  output: RunOutput;
  passthrough: readonly string[] | '*';
  /**
   * Model columns whose values are decimals of a typed table, represented as strings. `withNamedColumns` finds these
   * columns.
   */
  decimals?: readonly string[];
  /**
   * Whether to omit passthrough columns from the rejects file. Default: all passthrough columns with known names are
   * included.
   */
  listsNone?: boolean;
  /** Add effects and reason codes to the predictions. */
  interpretation?: InterpretationSpec | null;
  limits?: StreamLimits;
  writeRejects?: (lines: string) => Promise<void>;
}

/**
 * Checks a table against the model. If the output needs column names before the first row, replaces the passthrough `*`
 * by the column names.
 * @throws SluiceError bad_type | usage: the names are not known before all records were read
 */
export function withNamedColumns<O extends StreamOptions>(options: O): O {
  const { input, chunks, output, model, passthrough } = options;
  const declared = input.declared?.columns;
  const { columns } = chunks;
  if (!columns && input.format === 'ndjson' && input.table) throw new Error('the columns of a table are missing');
  const decimals = columns ? fitTable(columns, model.manifest, passthrough, declared) : [];
  const fitted = decimals.length > 0 ? { ...options, decimals } : options;
  if (passthrough !== '*' || input.format === 'delimited' || (output.format !== 'csv' && output.format !== 'tsv')) {
    return fitted;
  }
  if (!columns) {
    throw new SluiceError(
      'usage',
      `passthrough: * is not possible from JSON to ${output.format}, whose header lists all columns: list the columns to pass through`,
    );
  }
  return { ...fitted, passthrough: columnsBeside(columns.names, model.manifest, declared), listsNone: true };
}

/** Reads the header row of delimited text, or uses declared names instead. */
export class HeaderTaker {
  fitted: FittedHeader | null = null;
  readonly #options: StreamOptions;

  /** @throws SluiceError usage | header_mismatch: the declarations do not fit the model */
  constructor(options: StreamOptions) {
    this.#options = options;
    const { input, model, passthrough } = options;
    if (!input.declared) return;
    checkDeclaration(input.declared, model.manifest, passthrough);
    const names = input.declared.columns?.names ?? null;
    if (input.format === 'delimited' && names !== null) this.fitted = fitNames(names, this.#fit(input.delimiter));
  }

  #fit(delimiter: string): FitOptions {
    const { input, limits, model, passthrough } = this.#options;
    const maxColumns = columnLimit(model.manifest, limits?.maxColumns);
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

/**
 * @throws SluiceError interpretation_unavailable: the package has no background sample, or its method does not support
 * the requested interactions
 * @throws SluiceError interpretation_over_budget: its black-box model needs more evaluations than the limits allow
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

export const maxRecordBytes = (limits: StreamLimits | undefined): number =>
  limits?.maxRecordBytes ?? DEFAULT_RECORD_BYTES;

/** The scanner that finds record ends in the input's format. */
export function scannerFor({ input, limits }: Pick<StreamOptions, 'input' | 'limits'>): RecordScanner {
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

export function streamSpec(options: StreamOptions, header: FittedHeader | null): StreamSpec {
  const { input, output, model } = options;
  const interpretation = options.interpretation ?? null;
  const ids = options.passthrough === '*' || options.listsNone ? [] : options.passthrough;
  const listed = options.writeRejects ? { rejectLines: true, ...(ids.length > 0 ? { listed: ids } : {}) } : {};
  if (input.format === 'delimited') {
    if (!header) {
      const { skipLines = 0 } = options.chunks;
      const where = skipLines === 0 ? '' : ` after the first ${skipLines} lines, which are skipped`;
      throw new SluiceError('empty_input', `the input has no header row${where}`);
    }
    const spec: OutputSpec = {
      ...output,
      passthrough: header.passthrough,
      passthroughIsJson: input.tokens === true,
      interpretation,
    };
    refuseHiddenKeys(spec, model.manifest, output.added);
    const layout = header.layout;
    return { input: { format: 'delimited', layout, ...declaredParts(input.declared) }, output: spec, ...listed };
  }
  const passthrough = options.passthrough === '*' ? ['*'] : options.passthrough;
  const spec: OutputSpec = { ...output, passthrough, passthroughIsJson: true, interpretation };
  refuseHiddenKeys(spec, model.manifest, output.added);
  return {
    input: {
      format: 'json',
      layout: {
        passthrough: options.passthrough,
        reserved: [...ANSWER_KEYS, ...(output.added ?? [])],
        outcome: model.manifest.outcome ?? null,
        maxColumns: columnLimit(model.manifest, options.limits?.maxColumns),
        ...(input.declared?.columns ? { declared: input.declared.columns } : {}),
        ...(input.declared?.encoding ? { encoding: input.declared.encoding } : {}),
      },
      ...declaredParts(input.declared),
      ...(options.decimals ? { decimals: options.decimals } : {}),
    },
    output: spec,
    ...listed,
  };
}

/**
 * Rejects passthrough columns named like a field of the prediction. In JSON, such a column would hide the field; in a
 * table, two columns would have the same name.
 */
function refuseHiddenKeys(spec: OutputSpec, manifest: Manifest, added: readonly string[] = []): void {
  const isJson = spec.format === 'json' || spec.format === 'ndjson';
  const own = isJson
    ? [...ANSWER_KEYS, ...added]
    : outputColumns(manifest, [], spec.interpretation).map(({ name }) => name);
  refuseHidden(spec.passthrough, own);
}
