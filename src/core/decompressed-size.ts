// The limit of compressed data: how large it may become when it is decompressed.

const MOST_RATIO = 16;

/**
 * Maximum size of decompressed data, bytes: `least`, or MOST_RATIO times the compressed size if that is more. Without a
 * limit, a small input could fill the memory.
 */
export const mostDecompressed = (least: number, compressedBytes: number): number =>
  Math.max(least, MOST_RATIO * compressedBytes);
