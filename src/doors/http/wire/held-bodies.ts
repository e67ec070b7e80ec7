// Bodies that are held in memory as a whole: how many bytes they have together, and which of the large ones is worked on.
import { SluiceError } from '../../../core/errors.ts';
import { KeyTurns } from './key-turns.ts';

interface HeldBodiesLimits {
  /** Of all bodies together, and of those of one key. */
  bytes: number;
  bytesPerKey: number;
  /** Bodies up to here are worked on at once, larger ones one after the other. */
  small: number;
}

/** A body that is being held. */
interface HeldBody {
  /** More bytes have come. @throws SluiceError overloaded */
  add(bytes: number): void;
  /** Waits until it may be worked on. @throws the reason of `signal` */
  turn(signal: AbortSignal): Promise<void>;
  /** It is held no more. Idempotent. */
  release(): void;
}

export class HeldBodies {
  readonly #limits: HeldBodiesLimits;
  readonly #byKey = new Map<string, number>();
  /** Of large bodies. */
  readonly #turns = new KeyTurns(1);
  #bytes = 0;

  constructor(limits: HeldBodiesLimits) {
    this.#limits = limits;
  }

  /** Bytes that are held. */
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
      throw new SluiceError('overloaded', 'other requests of this kind use all the memory they are allowed');
    }
    this.#bytes += bytes;
    if (ofKey > 0) this.#byKey.set(key, ofKey);
    else this.#byKey.delete(key);
  }
}
