// Checks whether a run scored a total line at the end of a file as if it were an application.
// Reads only the end of the file.
import { type FileHandle, open } from 'node:fs/promises';
import type { EncodingName, NumberNotation } from '../core/input-declaration.ts';
import { isTotalWord } from './total-words.ts';

interface ScoredFile {
  name: string;
  delimiter: string;
  encoding: EncodingName;
  notation: NumberNotation;
  /** Number of lines in front of the table. `hasHeader`: whether a header row follows them. */
  skipLines: number;
  hasHeader: boolean;
}

const LAST_LINE_BYTES = 16 * 1024;
const TAIL_BYTES = 64 * 1024;
/** Maximum size of a file in which columns are added up. This happens only if the last line is unusual. */
const SUMMED_BYTES = 4 * 1024 * 1024;
const LF = 10;

/** Why the last line looks like a total line; null: it does not look like one, or the file cannot be read again. */
export async function scoredTotal(file: ScoredFile): Promise<string | null> {
  // UTF-16 cannot be decoded, because only the end of the file is read, which has no byte order mark.
  if (file.encoding.startsWith('utf-16')) return null;
  let handle: FileHandle;
  try {
    handle = await open(file.name, 'r');
  } catch {
    return null;
  }
  try {
    const info = await handle.stat();
    if (!info.isFile()) return null;
    const endOf = async (bytes: number): Promise<Buffer> => {
      const end = Buffer.alloc(Math.min(bytes, info.size));
      const { bytesRead } = await handle.read(end, 0, end.length, info.size - end.length);
      return end.subarray(0, bytesRead);
    };
    if (!(await isUnusual(await endOf(LAST_LINE_BYTES), file))) return null;
    const complete = info.size <= SUMMED_BYTES;
    return await judged(await endOf(complete ? info.size : TAIL_BYTES), complete, file);
  } catch {
    return null;
  } finally {
    await handle.close();
  }
}

/** A fast test whether the last line may be a total line. Ordinary applications fail the test. */
async function isUnusual(end: Buffer, { delimiter, encoding }: ScoredFile): Promise<boolean> {
  let stop = end.length;
  while (stop > 0 && end[stop - 1]! <= 32) stop--;
  const line = await decoded(end.subarray(end.lastIndexOf(LF, Math.max(0, stop - 1)) + 1, stop), encoding);
  const cells = line.split(delimiter).map((cell) => cell.replace(/^"|"$/g, '').trim());
  const first = cells.find((cell) => cell !== '') ?? '';
  return isTotalWord(first) || 2 * cells.filter((cell) => cell === '').length >= cells.length;
}

async function decoded(bytes: Buffer, encoding: EncodingName): Promise<string> {
  if (encoding === 'utf-8') return bytes.toString('utf8');
  const { asUtf8 } = await import('./open-unknown.ts');
  return (await asUtf8(bytes, encoding)).toString('utf8');
}

async function judged(tail: Buffer, complete: boolean, file: ScoredFile): Promise<string | null> {
  const [{ certainTotal }, { fieldsOf }, { numberIn }] = await Promise.all([
    import('./total-line.ts'),
    import('./sample-records.ts'),
    import('../inference/encode/column-reader.ts'),
  ]);
  const text = Buffer.from(await decoded(tail, file.encoding));
  // If only the end of the file was read, its first line may be incomplete and is skipped.
  const from = afterLines(text, complete ? file.skipLines : 1);
  const all = fieldsOf(text.subarray(from), file.delimiter) ?? [];
  const rows = all.slice(complete && file.hasHeader ? 1 : 0, -1);
  const [width = 0] =
    [...Map.groupBy(rows, (row) => row.length)].toSorted((a, b) => b[1].length - a[1].length)[0] ?? [];
  const { delimiter, notation } = file;
  return certainTotal({
    ...{ end: text, delimiter, width, rows, complete },
    numberIn: (_, cell) => numberIn(cell.trim(), notation),
  });
}

/** Offset after the first `lines` lines. */
function afterLines(text: Buffer, lines: number): number {
  let at = 0;
  for (let i = 0; i < lines; i++) {
    const end = text.indexOf(LF, at);
    if (end < 0) return text.length;
    at = end + 1;
  }
  return at;
}
