// Powers of ten that a double represents exactly.

/** 1e0 to 1e22. 1e23 and larger powers are not exact. */
export const POWERS = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));
