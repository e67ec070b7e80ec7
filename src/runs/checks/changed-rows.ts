// Finds the changed rows of an output: scores the rows of its changed blocks again and compares the results.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { LF, QUOTE } from '../../core/ascii.ts';
import type { RowRange } from '../../engine/score-chunks.ts';
import { WorkerPool } from '../../engine/worker-pool.ts';
import { isColumnar, isDelimited } from '../../formats/formats.ts';
import { CommitSet } from '../../io/sink/commit-set.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { Predicate } from '../../proof/statement.ts';
import { RunAccount } from '../account.ts';
import type { Endpoint } from '../endpoint-specs.ts';
import { openSink, openSource } from '../endpoints.ts';
import type { RejectsPart } from '../rejects-file.ts';
import { type OneRun, runOnce } from '../run-once.ts';
import { interpretationOf, type RunSpec, scoringOf } from '../spec.ts';

interface RescoreOptions {
  predicate: Predicate;
  model: ModelPackage;
  /** Input and output of the run. */
  input: Endpoint;
  output: Endpoint;
}

/** The result of scoring a range of rows again. */
interface Rescored {
  /** Number of the first row in the range. */
  first: number;
  rows: number;
  /** Lines of the rejects file, without the name of the input. */
  rejects: string;
}

async function rescore(
  { predicate, model, input }: RescoreOptions,
  only: RowRange,
  sink: OneRun['sink'],
): Promise<Rescored> {
  const { score, on_invalid, block_bytes } = predicate.options as unknown as Pick<RunSpec, 'score' | 'on_invalid'> & {
    block_bytes: number;
  };
  const done = { first: 0, rows: 0, rejects: '' };
  const rejects: RejectsPart = {
    write: async (lines) => {
      done.rejects += lines;
    },
    revocable: async () => true,
    keep: async () => {},
    drop: async () => {},
    bytes: () => null,
    sync: async () => {},
  };
  const source = await openSource({ ...input, recordBytes: score.record_bytes });
  const pool = await WorkerPool.start({ model, workers: 1 }, {}).catch(async (error) => {
    await source.close();
    throw error;
  });
  try {
    await runOnce({
      ...{ model, pool, sink, rejects, only },
      source: { chunks: source.chunks, input: source.input },
      scoring: { ...scoringOf({ score, on_invalid }, []), failOnInvalid: false },
      account: new RunAccount().unit(),
      onBlock: ({ block, rows }) => {
        if (done.rows === 0) done.first = block.firstRow;
        done.rows += rows;
      },
      blockBytes: block_bytes,
    });
    return done;
  } finally {
    await pool.close();
    await source.close();
  }
}

/** Scores rows again and passes the text of their predictions to `write`. */
async function rescoreText(
  options: RescoreOptions,
  rows: RowRange,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<Rescored> {
  const { format, delimiter } = options.output;
  const nothing = async () => {};
  const output = { format: isColumnar(format) ? 'ndjson' : format, delimiter };
  return rescore(options, rows, { output, write, commit: nothing, abort: nothing });
}

/** Finds the changed rows (from 1) in a changed block of a text output. `actual`: the current bytes of the block. */
export async function changedTextRows(options: RescoreOptions, rows: RowRange, actual: Buffer): Promise<number[]> {
  const chunks: Buffer[] = [];
  const { first } = await rescoreText(options, rows, async (bytes) => {
    chunks.push(Buffer.from(bytes));
  });
  const { format } = options.output;
  // The closing bracket of a JSON array is written after the last block, so it is not part of this block.
  const written = pieces(Buffer.concat(chunks), format);
  const records = recordStarts(written, format);
  const isHeaded = first === 1 && isDelimited(format);
  // The row of each piece; 0 is the header.
  const rowOf = (piece: number): number => first - (isHeaded ? 1 : 0) + records[piece]!;
  const found = differences(written, pieces(actual, format), actual).map(rowOf);
  return [...new Set(found)].filter((row) => row >= rows.first && row <= rows.last);
}

/** Finds the changed rows in a changed block of a rejects file. `actual`: the current bytes of the block. */
export async function changedListRows(options: RescoreOptions, rows: RowRange, actual: Buffer): Promise<number[]> {
  // The rejects file does not depend on the format of the output.
  const { rejects } = await rescoreText(options, rows, async () => {});
  const lines = pieces(Buffer.from(rejects), 'csv');
  const records = recordStarts(lines, 'csv');
  const whole: string[] = [];
  for (const [i, line] of lines.entries()) whole[records[i]!] = (whole[records[i]!] ?? '') + line.toString();
  const text = actual.toString();
  const prefixes = whole.map((record) => prefixOf(text, record));
  // In an unchanged file, every record has the same prefix: the name of the input. The most frequent prefix is
  // therefore the correct one.
  const counts = new Map<string | null, number>();
  for (const prefix of prefixes) counts.set(prefix, (counts.get(prefix) ?? 0) + 1);
  counts.delete(null);
  const usual = [...counts].sort(([, a], [, b]) => b - a)[0]?.[0];
  const rowOf = (record: string): number => Number(record.slice(0, record.indexOf(',')));
  const inRange = (row: number): boolean => row >= rows.first && row <= rows.last;
  const changed = whole
    .filter((_, i) => prefixes[i] === null || prefixes[i] !== usual)
    .map(rowOf)
    .filter(inRange);
  const all = whole.map(rowOf).filter(inRange);
  return changed.length === 0 && all.length === 1 ? all : changed;
}

/** The bytes that precede a record on its line; null if the record does not occur. */
function prefixOf(text: string, record: string): string | null {
  const at = text.indexOf(`,${record}`);
  return at < 0 ? null : text.slice(text.lastIndexOf('\n', at) + 1, at);
}

/**
 * Finds the rows of a changed row group or record batch whose values differ.
 * @throws SluiceError if the block cannot be decoded
 */
export async function changedTableRows(options: RescoreOptions, rows: RowRange): Promise<number[]> {
  const { predicate, model, output } = options;
  const spec = predicate.options as unknown as Pick<RunSpec, 'score' | 'on_invalid'>;
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-verify-'));
  const set = new CommitSet();
  try {
    const again: Endpoint = { ...output, name: path.join(folder, `again${path.extname(predicate.output.name)}`) };
    const passthrough = spec.score.passthrough ?? [];
    const written = { manifest: model.manifest, passthrough, interpretation: interpretationOf(spec), set };
    const { first } = await rescore(options, rows, await openSink(again, written));
    await set.publish();
    const changed: number[] = [];
    const lines = linesFrom(output, first);
    let row = first;
    try {
      for await (const line of linesFrom(again, 1)) {
        if (row > rows.last) break;
        const now = await lines.next();
        if (row >= rows.first && (now.done || now.value !== line)) changed.push(row);
        row++;
      }
    } finally {
      await lines.return(undefined);
    }
    return changed;
  } finally {
    await set.abort();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Rows of a table as JSON, from row `first` on. */
async function* linesFrom(table: Endpoint, first: number): AsyncGenerator<string> {
  const source = await openSource(table);
  try {
    let row = 1;
    let rest = '';
    const decoder = new TextDecoder();
    for await (const chunk of source.chunks) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop()!;
      for (const line of lines) if (row++ >= first) yield line;
    }
  } finally {
    await source.close();
  }
}

/**
 * Splits text into lines, each with its line end. A JSON array is split into its elements, each with the bytes that
 * precede it.
 */
function pieces(text: Buffer, format: Endpoint['format']): Buffer[] {
  const found: Buffer[] = [];
  if (format !== 'json') {
    for (let from = 0; from < text.length; ) {
      const to = text.indexOf(LF, from) + 1 || text.length;
      found.push(text.subarray(from, to));
      from = to;
    }
    return found;
  }
  const list = text.indexOf(LIST_OF_JSON);
  let [from, depth, quoted] = [0, 0, false];
  for (let at = list < 0 ? 0 : list + LIST_OF_JSON.length; at < text.length; at++) {
    const byte = text[at]!;
    if (quoted && byte === BACKSLASH) at++;
    else if (byte === QUOTE) quoted = !quoted;
    else if (!quoted && byte === OPEN) depth++;
    else if (!quoted && byte === CLOSE && --depth === 0) {
      found.push(text.subarray(from, at + 1));
      from = at + 1;
    } else if (depth < 0 || (depth === 0 && byte === CLOSE_LIST)) break;
  }
  return found;
}

const LIST_OF_JSON = '"predictions":[';
const BACKSLASH = 92;
const OPEN = 123;
const CLOSE = 125;
const CLOSE_LIST = 93;

/**
 * Index (from 0) of the record to which each piece belongs. A CSV record can span several lines, because its fields can
 * contain line ends.
 */
function recordStarts(of: readonly Buffer[], format: Endpoint['format']): number[] {
  if (!isDelimited(format)) return of.map((_, i) => i);
  let [record, quoted] = [0, false];
  return of.map((line) => {
    const own = record;
    for (const byte of line) if (byte === QUOTE) quoted = !quoted;
    if (!quoted) record++;
    return own;
  });
}

/** Indexes of the pieces of `written` that changed. `now`: all bytes of `actual`, concatenated. */
function differences(written: readonly Buffer[], actual: readonly Buffer[], now: Buffer): number[] {
  const before = Buffer.concat(written);
  const byPieces = missingPieces(
    written.map((piece) => piece.toString('latin1')),
    actual.map((piece) => piece.toString('latin1')),
  );
  if (before.length !== now.length) return byPieces;
  // If the length is unchanged, a line end may have been overwritten. Comparing bytes then finds the row that lost its
  // line end; comparing pieces would also report the next row.
  let end = 0;
  const byBytes = [...written.keys()].filter((i) => {
    const from = end;
    end += written[i]!.length;
    return before.compare(now, from, end, from, end) !== 0;
  });
  return byBytes.length <= byPieces.length ? byBytes : byPieces;
}

/** If more edits are needed, pieces are compared by position. */
const MOST_EDITS = 1000;

/** Indexes of the pieces of `written` that are missing, moved or duplicated in `actual`. */
function missingPieces(written: readonly string[], actual: readonly string[]): number[] {
  let start = 0;
  while (start < written.length && written[start] === actual[start]) start++;
  let [end, actualEnd] = [written.length, actual.length];
  while (end > start && actualEnd > start && written[end - 1] === actual[actualEnd - 1]) {
    end--;
    actualEnd--;
  }
  const middle = written.slice(start, end);
  const edits = shortestEdit(middle, actual.slice(start, actualEnd));
  if (edits === null) {
    const all = middle.map((_, i) => start + i);
    return end === actualEnd ? all.filter((i) => written[i] !== actual[i]) : all;
  }
  const { removed, added } = edits;
  const found = new Set(removed.map((i) => start + i));
  for (const { piece, before } of added) {
    // A duplicate counts as a change of the original row; foreign bytes count as a change of the row after them.
    const same = written.indexOf(piece);
    if (same >= 0) found.add(same);
    else if (removed.length === 0) found.add(Math.min(start + before, written.length - 1));
  }
  return [...found].sort((a, b) => a - b);
}

interface Edits {
  /** Positions in the first list. */
  removed: number[];
  /** Pieces of the second list. `before`: position in the first list in front of which the piece was added. */
  added: { piece: string; before: number }[];
}

/**
 * The shortest edit script, by the algorithm of Myers (1986). Null if the script would need more than MOST_EDITS edits.
 */
function shortestEdit(a: readonly string[], b: readonly string[]): Edits | null {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const reached = new Int32Array(2 * most + 3);
  const at = (k: number): number => k + most + 1;
  const trace: Int32Array[] = [];
  for (let d = 0; d <= most; d++) {
    trace.push(reached.slice());
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && reached[at(k - 1)]! < reached[at(k + 1)]!);
      let x = down ? reached[at(k + 1)]! : reached[at(k - 1)]! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reached[at(k)] = x;
      if (x >= a.length && x - k >= b.length) return editsOf(a, b, trace, at);
    }
  }
  return null;
}

function editsOf(
  a: readonly string[],
  b: readonly string[],
  trace: readonly Int32Array[],
  at: (k: number) => number,
): Edits {
  const edits: Edits = { removed: [], added: [] };
  let [x, y] = [a.length, b.length];
  for (let d = trace.length - 1; d > 0; d--) {
    const reached = trace[d]!;
    const k = x - y;
    const down = k === -d || (k !== d && reached[at(k - 1)]! < reached[at(k + 1)]!);
    const from = down ? k + 1 : k - 1;
    x = reached[at(from)]!;
    y = x - from;
    if (down) edits.added.push({ piece: b[y]!, before: x });
    else edits.removed.push(x);
  }
  return edits;
}
