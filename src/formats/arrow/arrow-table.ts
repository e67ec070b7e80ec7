// Reads an Arrow IPC stream or file as batches of columns, one record batch at a time.
import { type DataType, type Field, Type } from '@uwdata/flechette';
import { EventLoopTurns } from '../../core/async.ts';
import type { ValueKind } from '../../core/block.ts';
import { SluiceError } from '../../core/errors.ts';
import { type ColumnSource, fillBatch, fitRows, keysOf, type LineBatch } from '../columns/line-batch.ts';
import { TableBudget } from '../columns/table-limits.ts';
import { ArrowBatches, schemaFields } from './arrow-batches.ts';
import { ArrowColumn, isFlat, kindOfField } from './arrow-column.ts';
import { ArrowDictionary } from './arrow-dictionary.ts';
import { type ArrowMessage, arrowMessages, MOST_BODY, tooLarge } from './arrow-messages.ts';

export interface ArrowOptions {
  /** Whether to leave out the column with this name. Such columns may be nested. */
  ignored?: (name: string, nested: boolean) => boolean;
  /**
   * Maximum bytes of a record batch, both compressed and decompressed, and of all dictionaries together. Default: 2
   * GiB.
   */
  batchBytes?: number;
  /** Default: only the text of a row is limited. */
  budget?: TableBudget;
  /**
   * Receives all bytes in order, with 0 rows. Once all bytes of a record batch were passed, it is called with the
   * number of rows of the batch.
   */
  onRows?: (bytes: Uint8Array, rows: number) => void;
}

/**
 * Opens a table and reads its schema. @throws SluiceError truncated_input | empty_input | limit_exceeded |
 * header_mismatch (a nested column)
 */
export async function openArrow(chunks: AsyncIterable<Uint8Array>, options: ArrowOptions = {}): Promise<ArrowTable> {
  const { onRows } = options;
  const messages = arrowMessages(chunks, options.batchBytes, onRows && ((bytes) => onRows(bytes, 0)));
  const { value: schema } = await messages.next();
  if (schema?.kind !== 'schema') throw new SluiceError('truncated_input', 'an Arrow stream must start with its schema');
  return new ArrowTable(schema, messages, options);
}

const NO_BYTES = new Uint8Array(0);
/** Maximum size of record batches that come before their dictionaries, bytes. */
const MOST_HELD = 256 * 1024 * 1024;

class ArrowTable implements ColumnSource {
  readonly names: readonly string[];
  readonly kinds: readonly ValueKind[];
  readonly recordBytes: number;
  readonly #messages: AsyncIterator<ArrowMessage>;
  readonly #batches: ArrowBatches;
  /** Types of the columns that are not ignored. `#places`: their indexes among all columns. */
  readonly #types: readonly DataType[];
  readonly #places: readonly number[];
  readonly #columns: readonly ArrowColumn[];
  /** For each dictionary ID: the type of its words. `#dictionaries`: the current dictionaries by ID. */
  readonly #wordTypes: ReadonlyMap<number, DataType>;
  readonly #dictionaries = new Map<number, ArrowDictionary>();
  /** Record batches that came before their dictionaries, as polars writes them to files. */
  readonly #held: ArrowMessage[] = [];
  #heldBytes = 0;
  #left = 0;
  readonly #batchBytes: number;
  readonly #turns = new EventLoopTurns();
  /** Indexes of the columns whose values become null. */
  #unused: readonly number[] = [];
  readonly #onRows: NonNullable<ArrowOptions['onRows']>;

  constructor(schema: ArrowMessage, messages: AsyncIterator<ArrowMessage>, options: ArrowOptions) {
    const { ignored, batchBytes = MOST_BODY, budget = new TableBudget() } = options;
    this.#batchBytes = batchBytes;
    this.#onRows = options.onRows ?? (() => {});
    this.recordBytes = budget.recordBytes;
    this.#messages = messages;
    const fields = fieldsIn(schema.bytes);
    this.#places = fields.flatMap(({ name, type }, i) => (ignored?.(name, !isFlat(type)) ? [] : [i]));
    budget.checkColumns(this.#places.length);
    const nested = this.#places.find((i) => !isFlat(fields[i]!.type));
    if (nested !== undefined) throw nestedColumn(nested, fields[nested]!.name);
    const read = this.#places.map((i) => fields[i]!);
    this.names = read.map(({ name }) => name);
    this.#types = read.map(({ type }) => type);
    this.kinds = this.#types.map(kindOfField);
    this.#columns = keysOf(this.names).map((key, c) => new ArrowColumn(key, this.#types[c]!, budget.recordBytes));
    this.#wordTypes = inMessage(() => wordTypesOf(read));
    const types = fields.map(({ type }) => type);
    this.#batches = new ArrowBatches(types, { batchBytes, budget });
  }

  readForModel(names: ReadonlySet<string>, unused: ReadonlySet<string>): void {
    for (const [c, column] of this.#columns.entries()) column.forModel = names.has(this.names[c]!);
    this.#unused = this.names.flatMap((name, c) => (unused.has(name) ? [c] : []));
  }

  async next(batch: LineBatch): Promise<boolean> {
    while (this.#left === 0) if (!(await this.#load())) return false;
    await this.#turns.pass();
    try {
      const rows = fitRows(this.#columns, Math.min(batch.capacity, this.#left));
      fillBatch(batch, this.#columns, { rows, recordBytes: this.recordBytes, unused: this.#unused });
      this.#left -= rows;
    } catch (cause) {
      throw broken(cause);
    }
    return true;
  }

  /** Reads the next message; false: the stream has ended. */
  async #load(): Promise<boolean> {
    const isKnown = this.#wordTypes.keys().every((id) => this.#dictionaries.has(id));
    let message = isKnown ? this.#held.shift() : undefined;
    if (!message) {
      const next = await this.#messages.next();
      message = next.done ? this.#held.shift() : next.value;
      if (!message) return false;
      await this.#turns.pass();
      if (message.kind === 'schema') throw new SluiceError('truncated_input', 'an Arrow stream has a second schema');
      if (message.kind === 'batch' && !isKnown && !next.done) {
        this.#hold(message);
        return true;
      }
    }
    try {
      if (message.kind === 'dictionary') await this.#takeDictionary(message);
      else await this.#takeRecords(message);
    } catch (cause) {
      throw broken(cause);
    }
    return true;
  }

  /** Keeps a record batch until its dictionaries have come. @throws SluiceError limit_exceeded */
  #hold(message: ArrowMessage): void {
    this.#heldBytes += message.bytes.length;
    const most = Math.min(this.#batchBytes, MOST_HELD);
    if (this.#heldBytes > most) {
      throw new SluiceError(
        'limit_exceeded',
        `more than ${most} bytes of record batches come before their dictionaries: write an Arrow stream (write_ipc_stream in polars)`,
        { extra: { limit: 'held_batches', value: most, unit: 'bytes' } },
      );
    }
    // The memory of a message is used again for the next one.
    this.#held.push({ ...message, bytes: message.bytes.slice() });
  }

  async #takeDictionary({ id, isDelta, bytes }: ArrowMessage): Promise<void> {
    const key = Number(id);
    const type = this.#wordTypes.get(key);
    // No column that is read uses this dictionary.
    if (!type) return;
    const part = await this.#batches.words(bytes, type);
    if (!isDelta) this.#dictionaries.set(key, new ArrowDictionary(type));
    const dictionary = this.#dictionaries.get(key);
    if (!dictionary) throw new Error('a dictionary is extended before it is defined');
    dictionary.add(part.words, part.bytes);
    const held = this.#dictionaries.values().reduce((sum, { bytes: own }) => sum + own, 0);
    if (held > this.#batchBytes) throw tooLarge(this.#batchBytes);
  }

  async #takeRecords({ bytes }: ArrowMessage): Promise<void> {
    const { rows, columns } = await this.#batches.records(bytes);
    if (rows === 0) return;
    this.#onRows(NO_BYTES, rows);
    for (const [c, column] of this.#columns.entries()) {
      const dictionary = this.#dictionaryOf(this.#types[c]!);
      column.begin(columns[this.#places[c]!]!, dictionary);
      if (column.mustList(rows)) await column.list(this.#turns);
    }
    this.#left = rows;
  }

  #dictionaryOf(type: DataType): ArrowDictionary | null {
    const coded = codedType(type);
    if (!coded) return null;
    const dictionary = this.#dictionaries.get(coded.id);
    if (!dictionary) throw new Error('a column has codes but no dictionary');
    return dictionary;
  }
}

type DictionaryType = DataType & { id: number; dictionary: DataType };

/** The dictionary type of a column or of its run values; null: neither has a dictionary. */
function codedType(type: DataType): DictionaryType | null {
  if (type.typeId === Type.Dictionary) return type as DictionaryType;
  return type.typeId === Type.RunEndEncoded ? codedType(type.children[1]!.type) : null;
}

/** The columns of a schema. @throws SluiceError header_mismatch */
function fieldsIn(schema: Uint8Array): Field[] {
  try {
    return schemaFields(schema);
  } catch (cause) {
    throw new SluiceError(
      'header_mismatch',
      'the Arrow schema is damaged, or a column has a type that cannot be read, such as a 128-bit integer; convert or drop the column',
      { cause },
    );
  }
}

/** @throws Error if columns that share a dictionary disagree on the type of its words */
function wordTypesOf(fields: readonly Field[]): Map<number, DataType> {
  const types = new Map<number, DataType>();
  for (const { type } of fields) {
    const coded = codedType(type);
    if (!coded) continue;
    const { id, dictionary } = coded;
    if (JSON.stringify(types.get(id) ?? dictionary) !== JSON.stringify(dictionary)) {
      throw new Error('two types of one dictionary');
    }
    types.set(id, dictionary);
  }
  return types;
}

function inMessage<T>(decode: () => T): T {
  try {
    return decode();
  } catch (cause) {
    throw broken(cause);
  }
}

function broken(cause: unknown): SluiceError {
  if (cause instanceof SluiceError) return cause;
  return new SluiceError('truncated_input', 'an Arrow message is damaged or of an unsupported kind', { cause });
}

/** The message includes the name, which is untrusted input, only if it looks like a column name. */
const nestedColumn = (at: number, name: string): SluiceError =>
  new SluiceError(
    'header_mismatch',
    `column ${at + 1}${/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? ` (${name})` : ''} is nested; flatten it, or declare it as ignored`,
  );
