// Lines of a list of rejected rows whose byte offsets count from a piece of the input, counted from its beginning.
import { neutralField } from '../io/format/delimited.ts';

/**
 * Adds `bytes` to the fourth field of every line that has one, behind the name of the input, row and line; a field in quotes may hold line ends.
 * Takes the bytes of the list without its header, cut anywhere.
 */
export async function* movedList(
  chunks: AsyncIterable<Uint8Array>,
  input: string,
  bytes: number,
): AsyncGenerator<Uint8Array> {
  if (bytes === 0) return yield* chunks;
  const prefix = `${neutralField(input, ',')},`;
  const text = new TextDecoder();
  let open = '';
  const moved = (line: string): Buffer => {
    const [row, at, byte] = line.slice(prefix.length).split(',', 3) as [string, string, string];
    const rest = line.slice(prefix.length + row.length + at.length + byte.length + 2);
    return Buffer.from(`${prefix}${row},${at},${byte === '' ? '' : Number(byte) + bytes}${rest}`);
  };
  for await (const chunk of chunks) {
    let line = '';
    let quotes = 0;
    for (const piece of (open + text.decode(chunk, { stream: true })).split(/(?<=\n)/)) {
      line += piece;
      quotes += piece.split('"').length - 1;
      if (quotes % 2 === 0 && line.endsWith('\n')) {
        yield moved(line);
        [line, quotes] = ['', 0];
      }
    }
    open = line;
  }
}
