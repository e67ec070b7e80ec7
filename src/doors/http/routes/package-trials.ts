// Admits requests that try out a package. Applies the quotas of the caller, and runs one trial per caller at a time.
import { availableParallelism } from 'node:os';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { tooMany } from '../../../core/errors.ts';
import type { Admitted } from '../wire/admission.ts';
import { KeyTurns } from '../wire/key-turns.ts';
import { withRetryAfter } from '../wire/retry-after.ts';
import { admit, type ServiceContext } from '../wire/scoring-request.ts';

/** Runs the trial of a package when it is the caller's turn. */
export type InTurn = <T>(trial: () => Promise<T>) => Promise<T>;

export class Trials {
  readonly #services: ServiceContext;
  readonly #turns = new KeyTurns(availableParallelism());
  /** By caller: number of requests in progress. */
  readonly #underWay = new Map<string, number>();

  constructor(services: ServiceContext) {
    this.#services = services;
  }

  async admit<T>(
    request: FastifyRequest,
    reply: FastifyReply,
    use: (place: Admitted, signal: AbortSignal, inTurn: InTurn) => Promise<T>,
  ): Promise<T> {
    const { config } = this.#services;
    const key = request.identity!.name;
    const limit = 'concurrent_model_uploads_per_key';
    const underWay = this.#underWay.get(key) ?? 0;
    if (underWay >= config.limits[limit])
      throw withRetryAfter(tooMany(limit, config.limits[limit], 'packages at once'), limit);
    return admit(this.#services, request, reply, async (place, signal) => {
      this.#underWay.set(key, underWay + 1);
      try {
        await place.begin(signal);
        return await use(place, signal, (trial) => this.#inTurn(key, { place, signal }, trial));
      } finally {
        const left = this.#underWay.get(key)! - 1;
        if (left === 0) this.#underWay.delete(key);
        else this.#underWay.set(key, left);
      }
    });
  }

  /** While a package waits for its turn, other requests can use its slot. */
  async #inTurn<T>(
    key: string,
    { place, signal }: { place: Admitted; signal: AbortSignal },
    trial: () => Promise<T>,
  ): Promise<T> {
    const turn = Promise.withResolvers<void>();
    const tried = this.#turns.run(key, signal, () => {
      turn.resolve();
      return trial();
    });
    tried.catch(turn.reject);
    await place.idle(() => turn.promise);
    return tried;
  }
}
