// Which letters are meant: every condition that is given has to hold.
import type { Letter } from './letter.ts';
import type { OffsetRanges } from './offset-ranges.ts';

export interface LetterSelection {
  readonly codes?: readonly string[];
  readonly columns?: readonly string[];
  readonly pipelines?: readonly string[];
  /** The bytes of the key. */
  readonly key?: Buffer;
  /** Became dead letters at or after this time, ms since 1970. */
  readonly since?: number;
  /** Became dead letters before this time, ms since 1970. */
  readonly until?: number;
  /** Of the dead letter topic. */
  readonly partition?: number;
  readonly offsets?: OffsetRanges;
  /** Became dead letters at most this often. */
  readonly maxAttempt?: number;
}

export function selects(selection: LetterSelection, letter: Letter, key: Buffer | null): boolean {
  const { codes, columns, pipelines, since, until, partition, offsets, maxAttempt } = selection;
  const among = (names: readonly string[] | undefined, name: string | null) =>
    names === undefined || (name !== null && names.includes(name));
  return (
    among(codes, letter.code) &&
    among(columns, letter.column) &&
    among(pipelines, letter.pipeline) &&
    (since === undefined || letter.time >= since) &&
    (until === undefined || letter.time < until) &&
    (partition === undefined || letter.partition === partition) &&
    (offsets === undefined || offsets.has(Number(letter.offset))) &&
    (maxAttempt === undefined || letter.attempt <= maxAttempt) &&
    (selection.key === undefined || (key !== null && selection.key.equals(key)))
  );
}
