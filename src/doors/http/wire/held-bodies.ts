// Limits request bodies that are held in memory: their total size, and the number of large bodies that are processed at
// the same time.
import { SluiceError } from '../../../core/errors.ts';
import { KeyTurns } from './key-turns.ts';

interface HeldBodiesLimits {
  /** Maximum total bytes of all bodies, and of the bodies of one key. */
  bytes: number;
  bytesPerKey: number;
  /** Bodies up to this size in bytes are processed concurrently; larger bodies are processed one at a time. */
  small: number;
}

/** A body held in memory. */
interface HeldBody {
  /** Adds received bytes. @throws SluiceError overloaded */
  add(bytes: number): void;
  /** Waits until the body may be processed. @throws the reason of `signal` */
  turn(signal: AbortSignal): Promise<void>;
  /** Frees the memory of the body. Idempotent. */
  release(): void;
}

export class HeldBodies {
  readonly #limits: HeldBodiesLimits;
  readonly #byKey = new Map<string, number>();
  /** Turns for large bodies. */
  readonly #turns = new KeyTurns(1);
  #bytes = 0;

  constructor(limits: HeldBodiesLimits) {
    this.#limits = limits;
  }

  /** Total bytes held. */
  get bytes(): number {
    return this.#bytes;
  }

  hold(key: string): HeldBody {
    let own = 0;
    let endTurn = () => {};
    return {
      add: (bytes) => {
        this.#count(key, bytes);
        own += bytes;
      },
      turn: async (signal) => {
        if (own > this.#limits.small) endTurn = await this.#turns.take(key, signal);
      },
      release: () => {
        this.#count(key, -own);
        own = 0;
        endTurn();
        endTurn = () => {};
      },
    };
  }

  #count(key: string, bytes: number): void {
    const ofKey = (this.#byKey.get(key) ?? 0) + bytes;
    const { bytes: most, bytesPerKey } = this.#limits;
    if (bytes > 0 && (this.#bytes + bytes > most || ofKey > bytesPerKey)) {
      throw new SluiceError('overloaded', 'the memory for request bodies of this kind is used up by other requests');
    }
    this.#bytes += bytes;
    if (ofKey > 0) this.#byKey.set(key, ofKey);
    else this.#byKey.delete(key);
  }
}
