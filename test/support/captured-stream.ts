// Takes over what this process writes to one of its streams.

/** `take` gets each chunk instead of the stream. Returns the function that writes to the stream itself, and the one that gives it back. */
export function capture(
  stream: NodeJS.WriteStream,
  take: (chunk: Buffer) => void,
): { write: (text: string) => void; restore: () => void } {
  const own = stream.write;
  stream.write = ((chunk: string | Uint8Array, ...more: unknown[]) => {
    const encoding = typeof more[0] === 'string' ? (more[0] as BufferEncoding) : 'utf8';
    take(typeof chunk === 'string' ? Buffer.from(chunk, encoding) : Buffer.from(chunk));
    const done = more.find((one) => typeof one === 'function');
    if (done) process.nextTick(done as () => void);
    return true;
  }) as typeof own;
  return {
    write: (text) => void own.call(stream, text),
    restore: () => {
      stream.write = own;
    },
  };
}
