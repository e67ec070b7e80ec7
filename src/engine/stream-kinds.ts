// Streams that are read and written alike are of one kind: workers keep a decoder and a formatter for each, by its number.
import { sameData } from '../core/same-data.ts';
import type { StreamSpec } from './protocol.ts';

export interface StreamKind {
  id: number;
  spec: StreamSpec;
  /** Open streams. */
  users: number;
  /** What a row takes a worker, ms, as far as it was measured; null: it was not. */
  rowMs: number | null;
}

/** Kinds that are remembered before those without open streams are forgotten. */
const MAX_KINDS = 32;

export class StreamKinds {
  readonly #kinds: StreamKind[] = [];
  readonly #onForget: (id: number) => void;
  #nextId = 1;

  /** `onForget`: what is kept for that kind is needed no longer. */
  constructor(onForget: (id: number) => void) {
    this.#onForget = onForget;
  }

  of(spec: StreamSpec): StreamKind {
    const known = this.#kinds.find((k) => sameData(k.spec, spec));
    if (known) return known;
    if (this.#kinds.length >= MAX_KINDS) this.#forgetUnused();
    const kind: StreamKind = { id: this.#nextId++, spec, users: 0, rowMs: null };
    this.#kinds.push(kind);
    return kind;
  }

  #forgetUnused(): void {
    for (const kind of this.#kinds.filter((k) => k.users === 0)) {
      this.#kinds.splice(this.#kinds.indexOf(kind), 1);
      this.#onForget(kind.id);
    }
  }
}
