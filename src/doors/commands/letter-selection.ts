// Turns flags into a selection of dead letters.

import type { DeadLetterSelection } from '../../connectors/kafka/dlq/dead-letter.ts';
import { OffsetRanges } from '../../connectors/kafka/dlq/offset-ranges.ts';
import { SluiceError } from '../../core/errors.ts';

export interface SelectionFlags {
  code?: string;
  column?: string;
  pipeline?: string;
  key?: string;
  since?: string;
  until?: string;
  minAgeMs?: number;
  maxAttempt?: number;
  partition?: number;
  offsets?: string;
}

/** A date, or a date and time with a time zone. A time without a time zone is rejected. */
const TIME = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** `now`: time in ms since 1970 from which the age of a letter is computed. @throws SluiceError usage */
export function selectionOf(flags: SelectionFlags, now: number): DeadLetterSelection {
  const { code, column, pipeline, key, minAgeMs, maxAttempt, partition } = flags;
  const since = timeOf('since', flags.since);
  const aged = minAgeMs === undefined ? undefined : now - minAgeMs;
  const said = timeOf('until', flags.until);
  const until = said === undefined || aged === undefined ? (said ?? aged) : Math.min(said, aged);
  return {
    ...(code === undefined ? {} : { codes: namesOf(code) }),
    ...(column === undefined ? {} : { columns: namesOf(column) }),
    ...(pipeline === undefined ? {} : { pipelines: namesOf(pipeline) }),
    ...(key === undefined ? {} : { key: Buffer.from(key) }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
    ...(maxAttempt === undefined ? {} : { maxAttempt }),
    ...(partition === undefined ? {} : { partition }),
    ...(flags.offsets === undefined ? {} : { offsets: rangesOf(flags.offsets, partition) }),
  };
}

const namesOf = (text: string): string[] => text.split(',').map((name) => name.trim());

function timeOf(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const time = TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(time)) {
    throw new SluiceError('usage', `--${flag} takes a time with its zone (2026-11-22T02:00Z) or a date (UTC)`);
  }
  return time;
}

function rangesOf(text: string, partition: number | undefined): OffsetRanges {
  if (partition === undefined)
    throw new SluiceError('usage', '--offsets needs --partition, because each partition has its own offsets');
  try {
    return OffsetRanges.parse(text);
  } catch (cause) {
    throw new SluiceError('usage', '--offsets takes ranges such as 100-199,205', { cause });
  }
}
