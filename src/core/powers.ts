import type { Arena } from './arena.ts';

/** Powers of ten that a double holds exactly: 1e0 to 1e22. */
export const POWERS = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));

/** Places the powers for a kernel; their address. */
export const placePowers = (arena: Arena): number =>
  arena.take(POWERS.length * 8, (memory, at) => new Float64Array(memory, at, POWERS.length).set(POWERS));
