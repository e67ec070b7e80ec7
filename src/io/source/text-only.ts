// Text that turns out to be something else at its first bytes is refused with its name.
import { SluiceError } from '../../core/errors.ts';
import { FIRST_BYTES, knownFormat } from '../../core/first-bytes.ts';
import type { Chunks } from './byte-source.ts';

/**
 * The same bytes. `name`: of the input, for the message.
 * @throws SluiceError invalid_encoding while reading
 */
export function textOnly(chunks: Chunks, name: string): Chunks {
  const look = (bytes: Uint8Array) => {
    const format = knownFormat(bytes);
    if (format) throw new SluiceError('invalid_encoding', `${name} is ${format.is}, not UTF-8 text: ${format.advice}`);
  };
  let seen = 0;
  const head = new Uint8Array(FIRST_BYTES);
  /** Chunks may be shorter than what has to be seen. */
  const see = (bytes: Uint8Array) => {
    if (seen === FIRST_BYTES) return;
    const more = bytes.subarray(0, FIRST_BYTES - seen);
    head.set(more, seen);
    seen += more.length;
    look(head.subarray(0, seen));
  };
  const { readInto } = chunks;
  return {
    [Symbol.asyncIterator]: async function* () {
      for await (const chunk of chunks) {
        see(chunk);
        yield chunk;
      }
    },
    ...(readInto
      ? {
          readInto: async (target: Uint8Array) => {
            const n = await readInto(target);
            if (seen < FIRST_BYTES) see(target.subarray(0, n));
            return n;
          },
        }
      : {}),
  };
}
