// Markers in the dead letter topic, which record the dead letters that are settled.
// Replayed records and their markers are written in one transaction. A marker goes to the partition of the dead letters
// that it lists. No further topic or permission is needed, and retention removes the dead letters before their markers.
import { SluiceError } from '../../../core/errors.ts';
import type { IncomingRecord, OutgoingRecord } from '../client/records.ts';
import { headerText, SETTLED_AS, type SettledAs } from './dead-letter.ts';
import { OffsetRanges } from './offset-ranges.ts';

/**
 * Header with the action of a marker. A record without this header is a dead letter. Other readers skip records with
 * it.
 */
const MARKER_HEADER = 'sluice-desk';
const VERSION = 1;
/** Space for all fields except the ranges, bytes. */
const MARKER_MARGIN = 512;

interface MarkerText {
  version: number;
  action: SettledAs;
  topic: string;
  partition: number;
  offsets: string;
}

/**
 * Builds markers for these offsets of a partition, each at most `maxBytes`. Each has a unique key, because compacted
 * topics demand one.
 */
export function markersOf(
  action: SettledAs,
  place: { topic: string; partition: number },
  offsets: OffsetRanges,
  maxBytes: number,
): OutgoingRecord[] {
  const limit = Math.max(40, maxBytes - MARKER_MARGIN - Buffer.byteLength(place.topic));
  const texts: string[] = [];
  for (const range of offsets.toString().split(',')) {
    const last = texts.at(-1);
    if (last === undefined || last.length + range.length + 1 > limit) texts.push(range);
    else texts[texts.length - 1] = `${last},${range}`;
  }
  return texts.map((text) => {
    const { topic, partition } = place;
    const marker: MarkerText = { version: VERSION, action, topic, partition, offsets: text };
    return {
      topic,
      partition,
      key: Buffer.from(`${MARKER_HEADER}/${crypto.randomUUID()}`),
      value: Buffer.from(JSON.stringify(marker)),
      headers: { [MARKER_HEADER]: Buffer.from(action) },
    };
  });
}

/**
 * Parses a marker; null: the record is a dead letter, even if its original had such a header or was a marker of another
 * topic.
 * @throws SluiceError kafka_config if it cannot be parsed, because ignoring it could replay dead letters twice
 */
export function markerIn(record: IncomingRecord): { action: SettledAs; offsets: OffsetRanges } | null {
  const action = headerText(record.headers, MARKER_HEADER);
  if (action === undefined || headerText(record.headers, 'sluice-error-code') !== undefined) return null;
  const place = `partition ${record.partition}, offset ${record.offset} of ${record.topic}`;
  try {
    const marker = JSON.parse(String(record.value)) as MarkerText;
    if (marker.topic !== record.topic || marker.partition !== record.partition) return null;
    if (marker.version !== VERSION || marker.action !== action || !SETTLED_AS.includes(marker.action)) {
      throw new SluiceError('kafka_config', `${place}: a marker of a newer release`);
    }
    return { action: marker.action, offsets: OffsetRanges.parse(marker.offsets) };
  } catch (error) {
    if (error instanceof SluiceError) throw error;
    throw new SluiceError('kafka_config', `${place}: an unreadable marker`, { cause: error });
  }
}
