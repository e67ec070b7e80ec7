// The outcome of each application together with its predictions: memory depends on the labels, not on the number of
// predictions.
import { SluiceError } from '../core/errors.ts';
import { NO_MONTH } from './calendar-month.ts';
import type { ScoredOutcomes } from './discrimination.ts';

// Keys to numbers: the bytes of each key are stored once and compared in full, so that equal hashes do no harm.

/** Bytes of the longest key. */
const MAX_KEY_BYTES = 4096;
/** Words of one piece of the store; a key lies in one of them. */
const PIECE_WORDS = 1 << 16;
/** Keys there is room for at first. */
const FIRST_KEYS = 1 << 10;

/**
 * An open-addressed hash table. A key takes 8 bytes, 8 to 16 in the table and its UTF-8 bytes, rounded up to whole words of four with
 * one in front; while the table grows half as much again.
 */
export class KeyTable {
  #count = 0;
  /** Number of the key + 1 by its hash; 0: free. A power of two of them, at most half in use. */
  #slots = new Uint32Array(FIRST_KEYS * 2);
  /** Per key. */
  #hashes = new Uint32Array(FIRST_KEYS);
  /** Per key: its first word, counted through all pieces. */
  #starts = new Uint32Array(FIRST_KEYS);
  readonly #pieces: Int32Array[] = [];
  /** The first word that is free. */
  #end = 0;
  /** The key at hand: its length, then its bytes with zeros behind them. */
  readonly #words = new Int32Array(2 + MAX_KEY_BYTES / 4);
  readonly #bytes = Buffer.from(this.#words.buffer);
  /** Keys come from outside: their hash collisions must not be predictable. */
  readonly #seed = crypto.getRandomValues(new Int32Array(1))[0]!;

  /** Number of keys; they are numbered from 0 in the order in which they came. */
  get count(): number {
    return this.#count;
  }

  /** The number of a key; -1: unknown. @throws SluiceError limit_exceeded */
  find(key: string): number {
    const words = this.#load(key);
    return this.#slots[this.#slotOf(this.#hash(words), words)]! - 1;
  }

  /** The number of a key, which is added if new: `count` was its number then. @throws SluiceError limit_exceeded */
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

  /** Takes a key in hand; gives its words. */
  #load(key: string): number {
    // A UTF-16 unit takes up to three bytes.
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

  /** MurmurHash3 (Austin Appleby, 32 bits) of the key at hand. */
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

  /** Where the key at hand is, or would be. */
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

  /** Keeps the key at hand; gives its first word. @throws SluiceError limit_exceeded */
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

/** An outcome that is not known yet. */
export const UNKNOWN = 2;
/** 0 or 1 (the positive class), or UNKNOWN. */
export type Outcome = 0 | 1 | typeof UNKNOWN;

/** No model, no decision. */
const NONE = 0xff;
/** Models and decisions that are distinguished; more indicate a wrong column. */
const MAX_NAMES = 0xff;
const FIRST_LABELS = 1 << 10;

interface PredictionEntry {
  model: string;
  probability: number;
  /** NO_MONTH: that of the label, if it has one. */
  month: number;
  decision: string | null;
  /** When, ms since 1970: an older one does not take the place of a newer one. 0: not known, the order of the rows counts. */
  time: number;
}

/** Predictions of one model for each label; a further model for the same application takes a further layer. */
interface Layer {
  readonly models: Uint8Array;
  readonly probabilities: Float64Array;
  readonly months: Uint16Array;
  readonly decisions: Uint8Array;
  /** null: no time is known. */
  times: Float64Array | null;
}

export interface DecisionCount {
  /** null: none was predicted. */
  decision: string | null;
  positives: number;
  negatives: number;
}

/** Labelled predictions of one model and one month. */
export interface LedgerMonth extends ScoredOutcomes {
  readonly month: number;
  readonly decisions: readonly DecisionCount[];
}

/** Labels first, then predictions: 3 bytes per label in addition to its key, and 12 for each model that predicted it, 20 with times. */
export class OutcomeLedger {
  readonly #keys = new KeyTable();
  #outcomes = new Uint8Array(FIRST_LABELS);
  #months = new Uint16Array(FIRST_LABELS);
  readonly #layers: Layer[] = [];
  readonly #models: string[] = [];
  readonly #decisions: string[] = [];
  #known = 0;

  /** Different keys. */
  get labels(): number {
    return this.#keys.count;
  }

  /** Labels whose outcome is known. */
  get known(): number {
    return this.#known;
  }

  /** Names of the models in the order in which they came. */
  get models(): readonly string[] {
    return this.#models;
  }

  /** false: the key was there; the new label takes the place of the old one. */
  label(key: string, outcome: Outcome, month: number): boolean {
    const before = this.#keys.count;
    const index = this.#keys.enter(key);
    if (index === this.#outcomes.length) {
      this.#outcomes = grown(this.#outcomes, new Uint8Array(index * 2));
      this.#months = grown(this.#months, new Uint16Array(index * 2));
    }
    const fresh = index === before;
    if (!fresh && this.#outcomes[index] !== UNKNOWN) this.#known--;
    if (outcome !== UNKNOWN) this.#known++;
    this.#outcomes[index] = outcome;
    this.#months[index] = month;
    return fresh;
  }

  /**
   * `repeated`: the model predicted this application before; the newer prediction takes the place of the older one.
   * @throws SluiceError limit_exceeded: more models or decisions than can be
   */
  predict(
    key: string,
    { model, probability, month, decision, time }: PredictionEntry,
  ): 'matched' | 'repeated' | 'unlabelled' {
    const index = this.#keys.find(key);
    if (index < 0 || this.#outcomes[index] === UNKNOWN) return 'unlabelled';
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

  /** Takes back what all models predicted of an application; gives how many predictions that were. */
  forget(key: string): number {
    const index = this.#keys.find(key);
    if (index < 0) return 0;
    const there = this.#layers.filter((layer) => layer.models[index] !== NONE);
    for (const layer of there) layer.models[index] = NONE;
    return there.length;
  }

  /** Known labels that some prediction was found for. */
  matched(): number {
    const [first] = this.#layers;
    return first === undefined ? 0 : first.models.reduce((n, model) => (model === NONE ? n : n + 1), 0);
  }

  /** Predictions of a model with a known outcome, by month in order; NO_MONTH is the last. */
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

  /** The layer that has the model's prediction of a label, else the first in which there is room. */
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

/** Of one month: first counted, then filled. */
class MonthCounts implements ScoredOutcomes {
  positives = new Float64Array(0);
  negatives = new Float64Array(0);
  #put: [negatives: number, positives: number] = [0, 0];
  /** Negatives and positives of each decision; the last pair is of those without one. */
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

  /** By name, so that the order of the inputs does not matter; those without one are the last. */
  decisions(names: readonly string[]): DecisionCount[] {
    const counts = [...names, null].flatMap((decision, i) => {
      const [negatives, positives] = [this.#byDecision[i * 2]!, this.#byDecision[i * 2 + 1]!];
      return negatives + positives === 0 ? [] : [{ decision, positives, negatives }];
    });
    return counts.sort(byName);
  }
}

/** Of decisions; null is the last. */
export function byName({ decision: a }: DecisionCount, { decision: b }: DecisionCount): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return a < b ? -1 : Number(a > b);
}

/** The place of a name in its list, which it joins if it is new. */
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

function grown<T extends Uint8Array | Uint16Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
