// Imported first: lz4 cannot be decompressed in this process. Brokers reject damaged batches, so the reader has to fail.
import { createRequire } from 'node:module';

const lz4 = createRequire(import.meta.url)('lz4-napi') as { decompressFrame: () => Promise<never> };
lz4.decompressFrame = async () => {
  throw new Error('not a frame');
};
