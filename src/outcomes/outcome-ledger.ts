// Stores the outcome of each application with its predictions.
// Memory depends on the number of outcomes, not on the number of predictions.
import { SluiceError } from '../core/errors.ts';
import { NO_MONTH } from './calendar-month.ts';
import type { ScoredOutcomes } from './discrimination.ts';

// The class below maps keys to numbers. The bytes of each key are stored once and compared completely, so two keys with
// equal hashes are distinguished.

/** Maximum length of a key in bytes. */
const MAX_KEY_BYTES = 4096;
/** Number of 32-bit integers per piece of the key store. A key is stored in a single piece. */
const PIECE_WORDS = 1 << 16;
/** Initial capacity, number of keys. */
const FIRST_KEYS = 1 << 10;

/**
 * A hash table with open addressing. The memory for a key is 8 bytes, 8 to 16 bytes for its slots, and its UTF-8 bytes
 * rounded up to a multiple of 4, plus 4 bytes. While the table grows, it needs half as much memory in addition.
 */
export class KeyTable {
  #count = 0;
  /**
   * Slots with key number + 1; 0: the slot is free. The number of slots is a power of two, and at most half of them are
   * in use.
   */
  #slots = new Uint32Array(FIRST_KEYS * 2);
  /** The hash of each key, by key number. */
  #hashes = new Uint32Array(FIRST_KEYS);
  /** The offset of the first 32-bit integer of each key, by key number. Offsets count through all pieces. */
  #starts = new Uint32Array(FIRST_KEYS);
  readonly #pieces: Int32Array[] = [];
  /** Offset of the first free 32-bit integer. */
  #end = 0;
  /** The current key: its length, then its bytes padded with zeros. */
  readonly #words = new Int32Array(2 + MAX_KEY_BYTES / 4);
  readonly #bytes = Buffer.from(this.#words.buffer);
  /** The seed is random, because keys come from untrusted inputs and collisions must not be predictable. */
  readonly #seed = crypto.getRandomValues(new Int32Array(1))[0]!;

  /** Number of keys. Keys are numbered from 0 in the order of insertion. */
  get count(): number {
    return this.#count;
  }

  /** The number of a key; -1: the key is unknown. @throws SluiceError limit_exceeded */
  find(key: string): number {
    const words = this.#load(key);
    return this.#slots[this.#slotOf(this.#hash(words), words)]! - 1;
  }

  /**
   * Returns the number of a key. A new key is added; its number is the previous `count`.
   * @throws SluiceError limit_exceeded
   */
  enter(key: string): number {
    const words = this.#load(key);
    const hash = this.#hash(words);
    const slot = this.#slotOf(hash, words);
    const known = this.#slots[slot]!;
    if (known !== 0) return known - 1;
    const index = this.#count++;
    this.#slots[slot] = index + 1;
    if (index === this.#hashes.length) this.#grow();
    this.#hashes[index] = hash;
    this.#starts[index] = this.#store(words);
    if (this.#count * 2 > this.#slots.length) this.#rehash();
    return index;
  }

  /** Loads a key as the current key. Returns its number of 32-bit integers. */
  #load(key: string): number {
    // A UTF-16 code unit needs at most three bytes.
    if (key.length * 3 > MAX_KEY_BYTES && Buffer.byteLength(key) > MAX_KEY_BYTES) {
      throw new SluiceError('limit_exceeded', `a key is longer than ${MAX_KEY_BYTES} bytes`, {
        extra: { limit: 'key', value: MAX_KEY_BYTES, unit: 'bytes' },
      });
    }
    const length = this.#bytes.write(key, 4, 'utf8');
    const words = 1 + ((length + 3) >> 2);
    this.#bytes.fill(0, 4 + length, words * 4);
    this.#words[0] = length;
    return words;
  }

  /** MurmurHash3 (Austin Appleby, 32 bits) of the current key. */
  #hash(words: number): number {
    let h = this.#seed;
    for (let i = 0; i < words; i++) {
      let k = Math.imul(this.#words[i]!, 0xcc9e2d51);
      k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
      h ^= k;
      h = (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
    }
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
    return (h ^ (h >>> 16)) >>> 0;
  }

  /** The slot of the current key. If the key is unknown, the free slot for it. */
  #slotOf(hash: number, words: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const index = this.#slots[slot]! - 1;
      if (index < 0 || (this.#hashes[index] === hash && this.#same(index, words))) return slot;
    }
  }

  #same(index: number, words: number): boolean {
    const start = this.#starts[index]!;
    const piece = this.#pieces[Math.floor(start / PIECE_WORDS)]!;
    const at = start % PIECE_WORDS;
    for (let i = 0; i < words; i++) if (piece[at + i] !== this.#words[i]) return false;
    return true;
  }

  /** Stores the current key. Returns the offset of its first 32-bit integer. @throws SluiceError limit_exceeded */
  #store(words: number): number {
    if ((this.#end % PIECE_WORDS) + words > PIECE_WORDS || this.#end === this.#pieces.length * PIECE_WORDS) {
      this.#end = this.#pieces.length * PIECE_WORDS;
      if (this.#end + PIECE_WORDS > 2 ** 32) throw new SluiceError('limit_exceeded', 'the keys take more than 16 GB');
      this.#pieces.push(new Int32Array(PIECE_WORDS));
    }
    const start = this.#end;
    this.#pieces.at(-1)!.set(this.#words.subarray(0, words), start % PIECE_WORDS);
    this.#end += words;
    return start;
  }

  #grow(): void {
    this.#hashes = larger(this.#hashes);
    this.#starts = larger(this.#starts);
  }

  #rehash(): void {
    const slots = new Uint32Array(this.#slots.length * 2);
    const mask = slots.length - 1;
    for (let index = 0; index < this.#count; index++) {
      let slot = this.#hashes[index]! & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = index + 1;
    }
    this.#slots = slots;
  }
}

function larger(array: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const grown = new Uint32Array(array.length * 2);
  grown.set(array);
  return grown;
}

/** The value of an outcome that is not known yet. */
export const UNKNOWN = 2;
/** 0 or 1 (the positive class), or UNKNOWN. */
export type Outcome = 0 | 1 | typeof UNKNOWN;

/** The number that means no model or no decision. */
const NONE = 0xff;
/** Maximum number of models, and of decisions. A larger number indicates that the wrong column was specified. */
const MAX_NAMES = 0xff;
const FIRST_LABELS = 1 << 10;

interface PredictionEntry {
  model: string;
  probability: number;
  /** NO_MONTH: the month of the outcome is used, if it is known. */
  month: number;
  decision: string | null;
  /**
   * Time of the prediction, ms since 1970; a newer prediction replaces an older prediction. 0: the time is unknown, so
   * the order of the rows decides.
   */
  time: number;
}

/**
 * Stores one prediction per outcome. If several models predict the same application, each prediction is in another
 * layer.
 */
interface Layer {
  readonly models: Uint8Array;
  readonly probabilities: Float64Array;
  readonly months: Uint16Array;
  readonly decisions: Uint8Array;
  /** null: no prediction has a known time. */
  times: Float64Array | null;
}

export interface DecisionCount {
  /** null: the predictions have no decision. */
  decision: string | null;
  positives: number;
  negatives: number;
}

/** The predictions of a model for a month that have a known outcome. */
export interface LedgerMonth extends ScoredOutcomes {
  readonly month: number;
  readonly decisions: readonly DecisionCount[];
}

/**
 * The ledger. All outcomes must be entered before the first prediction. Memory is 3 bytes per outcome (11 with times) in
 * addition to its key, and 12 bytes per outcome and model (20 with times).
 */
export class OutcomeLedger {
  readonly #keys = new KeyTable();
  #outcomes = new Uint8Array(FIRST_LABELS);
  #months = new Uint16Array(FIRST_LABELS);
  /** Times of the outcomes, ms since 1970; null: none is known. */
  #times: Float64Array<ArrayBuffer> | null = null;
  /** Times at which predictions were withdrawn, ms since 1970; null: none were. */
  #withdrawals: Float64Array | null = null;
  readonly #layers: Layer[] = [];
  readonly #models: string[] = [];
  readonly #decisions: string[] = [];
  #known = 0;

  /** Number of distinct keys. */
  get labels(): number {
    return this.#keys.count;
  }

  /** Number of known outcomes. */
  get known(): number {
    return this.#known;
  }

  /** The names of the models in the order in which they first occurred. */
  get models(): readonly string[] {
    return this.#models;
  }

  /**
   * Enters an outcome. Returns false if the key exists already; its outcome is then replaced, unless it is newer. `time`:
   * ms since 1970; 0: unknown, so the order of the rows decides.
   */
  label(key: string, outcome: Outcome, month: number, time = 0): boolean {
    const before = this.#keys.count;
    const index = this.#keys.enter(key);
    if (index === this.#outcomes.length) {
      this.#outcomes = grown(this.#outcomes, new Uint8Array(index * 2));
      this.#months = grown(this.#months, new Uint16Array(index * 2));
      this.#times &&= grown(this.#times, new Float64Array(index * 2));
    }
    const fresh = index === before;
    if (!fresh && this.#times !== null && this.#times[index]! > time) return false;
    if (time !== 0) this.#times ??= new Float64Array(this.#outcomes.length);
    if (this.#times) this.#times[index] = time;
    if (!fresh && this.#outcomes[index] !== UNKNOWN) this.#known--;
    if (outcome !== UNKNOWN) this.#known++;
    this.#outcomes[index] = outcome;
    this.#months[index] = month;
    return fresh;
  }

  /**
   * Enters a prediction. `repeated`: the model already had a prediction for this application, and the newer prediction
   * is kept. `withdrawn`: a newer record withdrew it.
   * @throws SluiceError limit_exceeded if there are too many models or decisions
   */
  predict(
    key: string,
    { model, probability, month, decision, time }: PredictionEntry,
  ): 'matched' | 'repeated' | 'withdrawn' | 'unlabelled' {
    const index = this.#keys.find(key);
    if (index < 0 || this.#outcomes[index] === UNKNOWN) return 'unlabelled';
    if (this.#withdrawals !== null && this.#withdrawals[index]! > time) return 'withdrawn';
    const number = numberOf(this.#models, model, 'models');
    const { layer, free } = this.#layerOf(index, number);
    if (!free && layer.times !== null && layer.times[index]! > time) return 'repeated';
    if (time !== 0) layer.times ??= new Float64Array(layer.models.length);
    if (layer.times) layer.times[index] = time;
    layer.models[index] = number;
    layer.probabilities[index] = probability;
    layer.months[index] = month === NO_MONTH ? this.#months[index]! : month;
    layer.decisions[index] = decision === null ? NONE : numberOf(this.#decisions, decision, 'decisions');
    return free ? 'matched' : 'repeated';
  }

  /**
   * Removes the predictions of all models for an application, except those that are newer than `time` (ms since 1970; 0:
   * unknown, so all are removed). Older predictions that are entered later are removed, too. Returns the number of
   * removed predictions.
   */
  forget(key: string, time: number): number {
    const index = this.#keys.find(key);
    if (index < 0) return 0;
    if (time !== 0) {
      this.#withdrawals ??= new Float64Array(this.labels);
      this.#withdrawals[index] = Math.max(time, this.#withdrawals[index]!);
    }
    let there = 0;
    let kept = 0;
    for (const layer of this.#layers) {
      if (layer.models[index] === NONE) break;
      there++;
      if (time === 0 || !layer.times || layer.times[index]! <= time) continue;
      // The predictions of an application are in the first layers.
      copyEntry(layer, this.#layers[kept++]!, index);
    }
    for (let i = kept; i < there; i++) this.#layers[i]!.models[index] = NONE;
    return there - kept;
  }

  /** Number of known outcomes with at least one prediction. */
  matched(): number {
    const [first] = this.#layers;
    return first === undefined ? 0 : first.models.reduce((n, model) => (model === NONE ? n : n + 1), 0);
  }

  /** The predictions of a model that have a known outcome, by month in ascending order. NO_MONTH comes last. */
  months(model: string): LedgerMonth[] {
    const wanted = this.#models.indexOf(model);
    const months = new Map<number, MonthCounts>();
    this.#each(wanted, (outcome, _, month, decision) => {
      const counts = months.get(month) ?? new MonthCounts(this.#decisions.length);
      months.set(month, counts);
      counts.add(outcome, decision);
    });
    for (const counts of months.values()) counts.allocate();
    this.#each(wanted, (outcome, probability, month) => months.get(month)!.put(outcome, probability));
    return [...months]
      .sort(([a], [b]) => a - b)
      .map(([month, counts]) => ({ month, ...counts.sorted(), decisions: counts.decisions(this.#decisions) }));
  }

  #each(model: number, visit: (outcome: 0 | 1, probability: number, month: number, decision: number) => void): void {
    const outcomes = this.#outcomes;
    for (const { models, probabilities, months, decisions } of this.#layers) {
      for (let i = 0; i < models.length; i++) {
        if (models[i] === model) visit(outcomes[i] as 0 | 1, probabilities[i]!, months[i]!, decisions[i]!);
      }
    }
  }

  /**
   * The layer that contains the model's prediction for an application; if there is none, the first layer with a free
   * entry.
   */
  #layerOf(index: number, model: number): { layer: Layer; free: boolean } {
    for (const layer of this.#layers) {
      const there = layer.models[index]!;
      if (there === model) return { layer, free: false };
      if (there === NONE) return { layer, free: true };
    }
    const labels = this.labels;
    const layer: Layer = {
      models: new Uint8Array(labels).fill(NONE),
      probabilities: new Float64Array(labels),
      months: new Uint16Array(labels),
      decisions: new Uint8Array(labels),
      times: null,
    };
    this.#layers.push(layer);
    return { layer, free: true };
  }
}

/** The counts of a month. Rows are counted first, then the probabilities are filled in. */
class MonthCounts implements ScoredOutcomes {
  positives = new Float64Array(0);
  negatives = new Float64Array(0);
  #put: [negatives: number, positives: number] = [0, 0];
  /** Numbers of negatives and positives for each decision. The last pair is for predictions without a decision. */
  readonly #byDecision: Float64Array;

  constructor(decisions: number) {
    this.#byDecision = new Float64Array((decisions + 1) * 2);
  }

  add(outcome: 0 | 1, decision: number): void {
    const at = decision === NONE ? this.#byDecision.length - 2 : decision * 2;
    this.#byDecision[at + outcome]!++;
  }

  allocate(): void {
    const total = (outcome: number) => this.#byDecision.reduce((n, c, i) => (i % 2 === outcome ? n + c : n), 0);
    this.negatives = new Float64Array(total(0));
    this.positives = new Float64Array(total(1));
  }

  put(outcome: 0 | 1, probability: number): void {
    (outcome === 1 ? this.positives : this.negatives)[this.#put[outcome]++] = probability;
  }

  sorted(): ScoredOutcomes {
    return { positives: this.positives.sort(), negatives: this.negatives.sort() };
  }

  /**
   * The counts by decision, sorted by name, so that they do not depend on the order of the inputs. Predictions without
   * a decision come last.
   */
  decisions(names: readonly string[]): DecisionCount[] {
    const counts = [...names, null].flatMap((decision, i) => {
      const [negatives, positives] = [this.#byDecision[i * 2]!, this.#byDecision[i * 2 + 1]!];
      return negatives + positives === 0 ? [] : [{ decision, positives, negatives }];
    });
    return counts.sort(byName);
  }
}

/** Compares decisions by name; null comes last. */
export function byName({ decision: a }: DecisionCount, { decision: b }: DecisionCount): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return a < b ? -1 : Number(a > b);
}

/** The index of a name in its list; a new name is appended. */
function numberOf(names: string[], name: string, what: string): number {
  const at = names.indexOf(name);
  if (at >= 0) return at;
  if (names.length === MAX_NAMES) {
    throw new SluiceError('limit_exceeded', `the predictions name more than ${MAX_NAMES} ${what}`, {
      extra: { limit: what, value: MAX_NAMES, unit: what },
    });
  }
  return names.push(name) - 1;
}

/** Copies the prediction of an application to another layer. */
function copyEntry(from: Layer, to: Layer, index: number): void {
  if (from === to) return;
  to.models[index] = from.models[index]!;
  to.probabilities[index] = from.probabilities[index]!;
  to.months[index] = from.months[index]!;
  to.decisions[index] = from.decisions[index]!;
  if (from.times) {
    to.times ??= new Float64Array(to.models.length);
    to.times[index] = from.times[index]!;
  }
}

function grown<T extends Uint8Array | Uint16Array | Float64Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
