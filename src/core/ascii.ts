// Bytes that mean something in every text format.

export const LF = 10;
export const CR = 13;
/** The double quote. */
export const QUOTE = 34;
