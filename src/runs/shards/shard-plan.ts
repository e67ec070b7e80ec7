// The plan of a sharded run: the byte ranges of the files that each shard scores, and the row number at which each
// range starts.

import { createHash } from 'node:crypto';
import path from 'node:path';
import { namedText, openStored, storedSize } from '../../connectors/stored-bytes.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Compression, FileFormat } from '../../core/file-format.ts';
import { isPlainName } from '../../core/file-names.ts';
import type { PiecePlace } from '../../io/source/block-cutter.ts';
import type { ByteSource } from '../../io/source/byte-source.ts';
import { checked } from '../../io/source/byte-taps.ts';
import { hashOfRange } from '../../io/source/record-marks.ts';

/** The part of a file that one shard scores. The pieces of a file cover the file completely, in order. */
export interface Piece {
  /** Index of the shard, from 0. */
  shard: number;
  /** Index of the file in the plan. */
  file: number;
  /** Raw byte range of the piece; `to` is exclusive. */
  from: number;
  to: number;
  /** SHA-256 of the raw bytes of the piece. */
  sha256: string;
  /** Row and physical line at which the piece starts, from 1. */
  first_row: number;
  first_line: number;
  /** Number of rows; null for compressed files and JSON arrays, whose rows are known only after reading. */
  rows: number | null;
  /** Parquet only: range of row groups; `to` is exclusive. */
  groups?: { from: number; to: number };
}

export interface PlannedFile {
  /** The name of the file, as an unsharded run would use it. */
  name: string;
  format: FileFormat;
  compression: Compression;
  delimiter: string;
  bytes: number;
  /** SHA-256 of the whole raw file. */
  sha256: string;
  /** The bytes before the first record (byte order mark, header), which every shard reads. */
  head: { bytes: number; line: number; sha256: string };
  /** Parquet only: the bytes from `from` to the end of the file, which every shard reads. Earlier plans lack it. */
  footer?: { from: number; sha256: string };
}

export interface ShardPlan {
  kind: 'sluice-plan';
  /** Version of this format. */
  format: 1;
  shards: number;
  /** Maximum record length in bytes. The plan fixes this length, because it affects where records end. */
  record_bytes: number;
  /**
   * Block size of all shards in bytes. The plan fixes the size, so that the merged manifest lists the same blocks as a
   * single run.
   */
  block_bytes: number;
  files: PlannedFile[];
  pieces: Piece[];
  /** SHA-256 of all other fields; identifies the plan. */
  sha256: string;
}

/** The shard that a run scores. */
export interface ShardSpec {
  plan: ShardPlan;
  /** Index of the shard, from 0. */
  index: number;
  /** Path of the plan file. */
  path: string;
}

/** A piece with its file: the input of a shard. */
export interface PlannedInput {
  piece: Piece;
  file: PlannedFile;
}

export const namedPlan = (plan: Omit<ShardPlan, 'sha256'>): ShardPlan => ({ ...plan, sha256: digestOf(plan) });

export const planText = (plan: ShardPlan): string => `${JSON.stringify(plan, null, 1)}\n`;

const digestOf = ({
  kind,
  format,
  shards,
  record_bytes,
  block_bytes,
  files,
  pieces,
}: Omit<ShardPlan, 'sha256'>): string =>
  createHash('sha256')
    .update(JSON.stringify([kind, format, shards, record_bytes, block_bytes, files, pieces]))
    .digest('hex');

/**
 * Reads a plan from a file or object.
 * @throws SluiceError input_not_found | storage_unavailable | plan_invalid: the file is not a plan, has another format
 * version, or was changed
 */
export async function readPlan(file: string): Promise<ShardPlan> {
  const text = await namedText(file);
  let plan: ShardPlan;
  try {
    plan = JSON.parse(text);
  } catch (cause) {
    throw new SluiceError('plan_invalid', `${file} is not a plan: it is not JSON`, { cause });
  }
  if (plan?.kind !== 'sluice-plan') throw new SluiceError('plan_invalid', `${file} is not a plan`);
  if (plan.format !== 1)
    throw new SluiceError('plan_invalid', `${file} was created by an incompatible release of Sluice`);
  if (plan.sha256 !== digestOf(plan)) throw new SluiceError('plan_invalid', `${file} was changed after it was created`);
  // The names of outputs are derived from these names, so they must be safe.
  if (!plan.files.every(({ name }) => isPlainName(path.basename(name)))) {
    throw new SluiceError('plan_invalid', `${file} contains an invalid file name`);
  }
  return plan;
}

/** The pieces of a shard, in order. Empty if the plan has fewer pieces than shards. @throws SluiceError usage */
export function inputsOfShard(plan: ShardPlan, shard: number): PlannedInput[] {
  if (shard >= plan.shards) {
    throw new SluiceError('usage', `the plan has shards 0 to ${plan.shards - 1}, but no shard ${shard}`);
  }
  return plan.pieces.filter((p) => p.shard === shard).map((piece) => ({ piece, file: plan.files[piece.file]! }));
}

/** Total raw size of all files in bytes. */
export const bytesOfPlan = ({ files }: Pick<ShardPlan, 'files'>): number =>
  files.reduce((sum, file) => sum + file.bytes, 0);

/** Total rows of all pieces; null if they are unknown without reading the files. */
export const rowsOfPlan = ({ pieces }: Pick<ShardPlan, 'pieces'>): number | null =>
  pieces.reduce<number | null>((sum, { rows }) => (sum === null || rows === null ? null : sum + rows), 0);

const otherThanPlanned = (file: PlannedFile): SluiceError =>
  new SluiceError('input_changed', `${file.name} was changed after it was planned: create the plan again`);

/**
 * Opens the raw bytes of a piece.
 * @throws SluiceError input_not_found | input_changed; while reading: input_unreadable | input_changed
 */
export async function openPiece({ piece, file }: PlannedInput, readBytes?: number): Promise<ByteSource> {
  const present = await storedSize(file.name);
  if (present !== null && present !== file.bytes) throw otherThanPlanned(file);
  const { from, to, sha256 } = piece;
  if (file.format === 'parquet') {
    const hash = (start: number, end: number) =>
      hashOfRange((ranges) => openStored(file.name, readBytes, ranges), start, end);
    const { footer } = file;
    if (footer && (await hash(footer.from, file.bytes)) !== footer.sha256) throw otherThanPlanned(file);
    if ((await hash(from, to)) !== sha256) throw otherThanPlanned(file);
    return openStored(file.name, readBytes, [{ from, to }]);
  }
  const ranges = [{ from, to }];
  const known = [{ bytes: to - from, sha256 }];
  if (from > 0) {
    ranges.unshift({ from: 0, to: file.head.bytes });
    known.unshift({ bytes: file.head.bytes, sha256: file.head.sha256 });
  }
  const source = await openStored(file.name, readBytes, ranges);
  return { ...source, chunks: checked(source.chunks, known, () => otherThanPlanned(file)) };
}

/** Position of a piece in its file; null if the piece starts at the beginning. */
export function placeOfPiece({ piece, file }: PlannedInput): PiecePlace | null {
  if (piece.from === 0) return null;
  const rows = piece.first_row - 1;
  // Rows of a table have no byte offset.
  if (file.format === 'parquet') return { rows, lines: rows, bytes: 0 };
  return { rows, lines: piece.first_line - file.head.line, bytes: piece.from - file.head.bytes };
}
