// Bodies that are held in memory as a whole: how many bytes they have together, and which of the large ones is worked on.
import { SluiceError } from '../../../core/errors.ts';

export interface HeldBodiesLimits {
  /** Of all bodies together, and of those of one key. */
  bytes: number;
  bytesPerKey: number;
  /** Bodies up to here are worked on at once, larger ones one after the other. */
  small: number;
}

/** A body that is being held. */
export interface HeldBody {
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
  readonly #waiting: (() => void)[] = [];
  #bytes = 0;
  /** A large body is worked on. */
  #busy = false;

  constructor(limits: HeldBodiesLimits) {
    this.#limits = limits;
  }

  /** Bytes that are held. */
  get bytes(): number {
    return this.#bytes;
  }

  hold(key: string): HeldBody {
    let own = 0;
    let atWork = false;
    return {
      add: (bytes) => {
        this.#count(key, bytes);
        own += bytes;
      },
      turn: async (signal) => {
        if (own <= this.#limits.small) return;
        await this.#turn(signal);
        atWork = true;
      },
      release: () => {
        this.#count(key, -own);
        own = 0;
        if (atWork) this.#next();
        atWork = false;
      },
    };
  }

  #count(key: string, bytes: number): void {
    const ofKey = (this.#byKey.get(key) ?? 0) + bytes;
    const { bytes: most, bytesPerKey } = this.#limits;
    if (bytes > 0 && (this.#bytes + bytes > most || ofKey > bytesPerKey)) {
      throw new SluiceError('overloaded', 'other requests of this kind hold as much memory as they may');
    }
    this.#bytes += bytes;
    if (ofKey > 0) this.#byKey.set(key, ofKey);
    else this.#byKey.delete(key);
  }

  async #turn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#busy) {
      this.#busy = true;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const start = () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const onAbort = () => {
        this.#waiting.splice(this.#waiting.indexOf(start), 1);
        reject(signal.reason);
      };
      this.#waiting.push(start);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  #next(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#busy = false;
  }
}
