// Long work in the main thread, in steps: between them the event loop handles what has arrived meanwhile.
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Work of a step, milliseconds. */
const STEP_MS = 10;

export class EventLoopTurns {
  #began = performance.now();

  /** Call it after each small piece of work: lets others work once a step took its time. */
  async pass(): Promise<void> {
    if (performance.now() - this.#began < STEP_MS) return;
    await nextTurn();
    this.#began = performance.now();
  }
}
