// Divides files into shards of about equal size in bytes. Shards begin at record starts; one pass over each file
// suffices.

import { createHash } from 'node:crypto';
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { openStored } from '../../connectors/stored-bytes.ts';
import { SluiceError } from '../../core/errors.ts';
import { blockBytesOf } from '../../engine/score-chunks.ts';
import { hasHeader, scannerFor } from '../../engine/stream-spec.ts';
import { isColumnar } from '../../formats/formats.ts';
import {
  findMarks,
  hashesBetween,
  hashOfRange,
  type OpenRanges,
  type RecordMark,
} from '../../io/source/record-marks.ts';
import { type Endpoint, inputFormatOf, outputName } from '../endpoint-specs.ts';
import { refuseConflicts } from '../same-files.ts';
import { namedPlan, type Piece, type PlannedFile, type ShardPlan } from './shard-plan.ts';

interface ShardPlanOptions {
  inputs: readonly Endpoint[];
  shards: number;
  /** Maximum length of a record in bytes. Longer records are rejected. */
  recordBytes: number;
  /** Block size in bytes. */
  blockBytes?: number;
  /** Called with the number of bytes read and the total size of all inputs in bytes. */
  onRead?: (bytes: number, of: number) => void;
  signal?: AbortSignal;
}

/** A compressed byte counts as this many uncompressed bytes. */
const PACKED = 4;

/** A boundary between shards: shard `shard` starts at the share `share` of its file. */
interface Bound {
  shard: number;
  share: number;
}

/** A divided file, with the position of the record at each boundary. */
interface CutFile {
  file: Omit<PlannedFile, 'name' | 'format' | 'compression' | 'delimiter'>;
  rows: number | null;
  marks: (RecordMark & { group?: number })[];
  digests: string[];
  groups?: number;
}

/**
 * Whether the file cannot be divided, because finding the start of a record would require reading all bytes before it.
 */
const isWhole = ({ format, compression }: Endpoint): boolean => compression !== 'none' || format === 'json';

/** Rejects inputs whose outputs and parts would have the same name. @throws SluiceError usage */
function refuseSameNames(inputs: readonly Endpoint[]): void {
  const known = new Map<string, string>();
  const conflicts = inputs.flatMap((input) => {
    const stem = outputName('{name}', input);
    const other = known.get(stem);
    if (other === undefined) known.set(stem, input.name);
    return other === undefined ? [] : [`${other} and ${input.name} would both be written to ${stem}`];
  });
  refuseConflicts(conflicts, 'rename the files, or plan each folder alone');
}

/**
 * @throws SluiceError usage: an input is a stream, or two have the same name | input_not_found | input_unreadable |
 *   input_changed | header_mismatch | foreign_content | truncated_input
 */
export async function planShards({
  inputs,
  shards,
  recordBytes,
  blockBytes = blockBytesOf(inputs.every(({ format }) => isColumnar(format))),
  onRead,
  signal,
}: ShardPlanOptions): Promise<ShardPlan> {
  refuseSameNames(inputs);
  const sizes = await Promise.all(inputs.map(sizeOfInput));
  const weights = inputs.map((input, i) => sizes[i]! * (input.compression === 'none' ? 1 : PACKED));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const files: PlannedFile[] = [];
  const pieces: Piece[] = [];
  let before = 0;
  let read = 0;
  for (const [i, input] of inputs.entries()) {
    signal?.throwIfAborted();
    const bounds = boundsOf({ before, weight: weights[i]!, total, shards });
    const cut = await cutFile(input, sizes[i]!, bounds.inside, { recordBytes, blockBytes });
    const { name, format, compression, delimiter } = input;
    files.push({ name, format, compression, delimiter, ...cut.file });
    pieces.push(...piecesOf(i, bounds, cut));
    before += weights[i]!;
    read += sizes[i]!;
    onRead?.(
      read,
      sizes.reduce((sum, size) => sum + size, 0),
    );
  }
  const said = { record_bytes: recordBytes, block_bytes: blockBytes };
  return namedPlan({ kind: 'sluice-plan', format: 1, shards, ...said, files, pieces });
}

async function sizeOfInput({ name }: Endpoint): Promise<number> {
  if (name === STDIO) throw new SluiceError('usage', 'standard input cannot be planned: shards read files');
  const source = await openStored(name);
  await source.close();
  if (source.totalBytes === null)
    throw new SluiceError('usage', `${name} is not a regular file: shards read regular files only`);
  return source.totalBytes;
}

interface Bounds {
  /** The shard that contains the start of the file. */
  first: number;
  inside: Bound[];
}

function boundsOf({
  before,
  weight,
  total,
  shards,
}: {
  before: number;
  weight: number;
  total: number;
  shards: number;
}): Bounds {
  const inside: Bound[] = [];
  let first = 0;
  for (let shard = 1; shard < shards; shard++) {
    const at = (shard * total) / shards;
    if (at <= before) first = shard;
    else if (at < before + weight) inside.push({ shard, share: (at - before) / weight });
  }
  return { first, inside };
}

function piecesOf(
  file: number,
  { first, inside }: Bounds,
  { file: { bytes, head }, rows, marks, digests, groups }: CutFile,
): Piece[] {
  const start: CutFile['marks'][number] = { byte: 0, row: 1, line: head.line, group: 0 };
  const cuts = [start, ...marks];
  const pieces: Piece[] = [];
  for (const [i, mark] of cuts.entries()) {
    const next = cuts[i + 1];
    const to = next?.byte ?? bytes;
    // An empty file becomes one piece, so that the run reports the error.
    if (mark.byte === to && (bytes > 0 || i > 0)) continue;
    pieces.push({
      shard: i === 0 ? first : inside[i - 1]!.shard,
      file,
      from: mark.byte,
      to,
      sha256: digests[i]!,
      first_row: mark.row,
      first_line: mark.line,
      rows: rows === null ? null : (next?.row ?? rows + 1) - mark.row,
      ...(groups === undefined ? {} : { groups: { from: mark.group!, to: next?.group ?? groups } }),
    });
  }
  return pieces;
}

const rangesOf =
  (name: string): OpenRanges =>
  (ranges) =>
    openStored(name, undefined, ranges);

async function cutFile(
  input: Endpoint,
  bytes: number,
  bounds: readonly Bound[],
  { recordBytes, blockBytes }: { recordBytes: number; blockBytes: number },
): Promise<CutFile> {
  if (isWhole(input)) return cutWholeFile(input, bytes, bounds);
  if (input.format === 'arrow')
    throw new SluiceError('usage', `${input.name}: Arrow files cannot be divided into shards: write Parquet`);
  if (input.format === 'parquet') return cutRowGroups(input, bytes, bounds);
  const { name } = input;
  const found = await findMarks(rangesOf(name), {
    scanner: scannerFor({ input: inputFormatOf(input), limits: { maxRecordBytes: recordBytes } }),
    header: hasHeader(inputFormatOf(input)),
    targets: bounds.map(({ share }) => Math.ceil(share * bytes)),
    blockBytes,
  });
  const header = hasHeader(inputFormatOf(input));
  const head = header ? { bytes: found.first.byte, line: found.first.line } : { bytes: 0, line: 1 };
  const sha256 = await hashOfRange(rangesOf(name), 0, head.bytes);
  return {
    file: { bytes: found.bytes, sha256: found.sha256, head: { ...head, sha256 } },
    rows: found.rows,
    marks: found.marks,
    digests: found.digests,
  };
}

const NO_HEAD = { bytes: 0, line: 1, sha256: createHash('sha256').digest('hex') };

/** Moves each boundary to the start or the end of the file, whichever is nearer. */
async function cutWholeFile({ name }: Endpoint, bytes: number, bounds: readonly Bound[]): Promise<CutFile> {
  const marks = bounds.map(({ share }) => ({ byte: share < 0.5 ? 0 : bytes, row: 1, line: 1 }));
  const { digests, sha256 } = await hashesBetween(rangesOf(name), byteOf(marks));
  return { file: { bytes, sha256, head: NO_HEAD }, rows: null, marks, digests };
}

/** Moves each boundary to the start of the nearest row group. */
async function cutRowGroups({ name }: Endpoint, bytes: number, bounds: readonly Bound[]): Promise<CutFile> {
  const { footerStart, rowGroups } = await import('../../formats/parquet/parquet-file.ts');
  const { withRandomAccess } = await import('../../connectors/stored-bytes.ts');
  const starts: Required<CutFile['marks'][number]>[] = [];
  let row = 1;
  let groups = 0;
  const { found, end } = await withRandomAccess(name, async (stored) => ({
    found: await rowGroups(stored),
    end: await footerStart(stored),
  }));
  for (const [group, { rows, byte }] of found.entries()) {
    groups++;
    // A group without rows may have the offset of the next group, so no shard starts at it.
    if (group > 0 && rows === 0) continue;
    starts.push({ byte: group === 0 ? 0 : byte, row, line: row, group });
    row += rows;
  }
  starts.push({ byte: bytes, row, line: row, group: groups });
  const ordered = starts.every((start, i) => i === 0 || start.byte > starts[i - 1]!.byte);
  if (!ordered) throw new SluiceError('usage', `${name}: its row groups are not stored in order: write the file again`);
  const marks = bounds.map(({ share }) => {
    const distance = ({ byte }: RecordMark) => Math.abs(byte - share * bytes);
    return starts.reduce((best, start) => (distance(start) < distance(best) ? start : best));
  });
  const { digests, sha256 } = await hashesBetween(rangesOf(name), byteOf(marks));
  const footer = { from: end, sha256: await hashOfRange(rangesOf(name), end, bytes) };
  return { file: { bytes, sha256, head: NO_HEAD, footer }, rows: row - 1, marks, digests, groups };
}

const byteOf = (marks: readonly RecordMark[]): number[] => marks.map(({ byte }) => byte);
