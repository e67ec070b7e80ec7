// The plan of a run in shards: which bytes of which files each shard scores, and the positions of their rows in the whole.

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

/** Part of one file that one shard scores. The pieces of a file cover all its bytes, in order. */
export interface Piece {
  /** From 0. */
  shard: number;
  /** Position of its file in the plan. */
  file: number;
  /** Bytes of the file as it is stored, `to` exclusive. */
  from: number;
  to: number;
  /** Of these bytes. */
  sha256: string;
  /** From 1, counted through the file; the line is the physical one. */
  first_row: number;
  first_line: number;
  /** null: unknown without reading the file (compressed files, JSON arrays). */
  rows: number | null;
  /** Of Parquet: its row groups, `to` exclusive. */
  groups?: { from: number; to: number };
}

export interface PlannedFile {
  /** As the run without shards would name it. */
  name: string;
  format: FileFormat;
  compression: Compression;
  delimiter: string;
  bytes: number;
  /** Of all of it. */
  sha256: string;
  /** Bytes before the first record (header, byte order mark), which every shard reads. */
  head: { bytes: number; line: number; sha256: string };
}

export interface ShardPlan {
  kind: 'sluice-plan';
  /** Of this format. */
  format: 1;
  shards: number;
  /** A longer record is rejected: it decides where records end. */
  record_bytes: number;
  /** Bytes of a block in all shards, so that the merged manifest has the blocks of a single run. */
  block_bytes: number;
  files: PlannedFile[];
  pieces: Piece[];
  /** Of all the rest: the name of the plan. */
  sha256: string;
}

/** The shard of a plan that a run scores. */
export interface ShardSpec {
  plan: ShardPlan;
  /** From 0. */
  index: number;
  /** Where the plan was read. */
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
 * A file or an object.
 * @throws SluiceError input_not_found | storage_unavailable | plan_invalid: not a plan, of another format, or changed
 */
export async function readPlan(file: string): Promise<ShardPlan> {
  const text = await namedText(file);
  let plan: ShardPlan;
  try {
    plan = JSON.parse(text);
  } catch (cause) {
    throw new SluiceError('plan_invalid', `${file} is no plan: it is not JSON`, { cause });
  }
  if (plan?.kind !== 'sluice-plan') throw new SluiceError('plan_invalid', `${file} is no plan`);
  if (plan.format !== 1) throw new SluiceError('plan_invalid', `${file} is a plan of another release of Sluice`);
  if (plan.sha256 !== digestOf(plan)) throw new SluiceError('plan_invalid', `${file} was changed since it was made`);
  // Names of outputs are made of these.
  if (!plan.files.every(({ name }) => isPlainName(path.basename(name)))) {
    throw new SluiceError('plan_invalid', `${file} names a file that is none`);
  }
  return plan;
}

/** The pieces of a shard, in order; none where there is less to do than there are shards. @throws SluiceError usage */
export function inputsOfShard(plan: ShardPlan, shard: number): PlannedInput[] {
  if (shard >= plan.shards) {
    throw new SluiceError('usage', `the plan has shards 0 to ${plan.shards - 1}, there is no shard ${shard}`);
  }
  return plan.pieces.filter((p) => p.shard === shard).map((piece) => ({ piece, file: plan.files[piece.file]! }));
}

/** Of all files, as stored. */
export const bytesOfPlan = ({ files }: Pick<ShardPlan, 'files'>): number =>
  files.reduce((sum, file) => sum + file.bytes, 0);

/** Of all pieces; null: unknown without reading. */
export const rowsOfPlan = ({ pieces }: Pick<ShardPlan, 'pieces'>): number | null =>
  pieces.reduce<number | null>((sum, { rows }) => (sum === null || rows === null ? null : sum + rows), 0);

const otherThanPlanned = (file: PlannedFile): SluiceError =>
  new SluiceError(
    'input_changed',
    `${file.name} is not the file that was planned: its bytes are others; plan it again`,
  );

/**
 * Opens the bytes as they are stored.
 * @throws SluiceError input_not_found | input_changed; while reading: input_unreadable | input_changed
 */
export async function openPiece({ piece, file }: PlannedInput, readBytes?: number): Promise<ByteSource> {
  const present = await storedSize(file.name);
  if (present !== null && present !== file.bytes) throw otherThanPlanned(file);
  const { from, to, sha256 } = piece;
  if (file.format === 'parquet') {
    const seen = await hashOfRange((ranges) => openStored(file.name, readBytes, ranges), from, to);
    if (seen !== sha256) throw otherThanPlanned(file);
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

/** Where a piece lies in its file; null: at its beginning. */
export function placeOfPiece({ piece, file }: PlannedInput): PiecePlace | null {
  if (piece.from === 0) return null;
  const rows = piece.first_row - 1;
  // Rows of a table lie at no byte of the file.
  if (file.format === 'parquet') return { rows, lines: rows, bytes: 0 };
  return { rows, lines: piece.first_line - file.head.line, bytes: piece.from - file.head.bytes };
}
