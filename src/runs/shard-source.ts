// The bytes that a shard reads of a file: the head and its piece, and they have to be those that were planned.
import { SluiceError } from '../core/errors.ts';
import type { ByteSource } from '../io/source/byte-source.ts';
import { checked } from '../io/source/checked.ts';
import type { PiecePlace } from '../io/source/moved-blocks.ts';
import { hashOfRange } from '../io/source/record-marks.ts';
import type { PlannedFile, PlannedInput } from './shard-plan.ts';
import { openStored, storedSize } from './stored.ts';

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
