// Markers: records in the dead letter topic that list the offsets of settled dead letters.
// Replayed records and the markers of their dead letters are written in one transaction. A marker is written to the
// partition of the dead letters that it lists. So no further topic or permission is needed, and retention removes dead
// letters before their markers.
import { SluiceError } from '../../../core/errors.ts';
import type { IncomingRecord, OutgoingRecord } from '../client/records.ts';
import { headerText, SETTLED_AS, type SettledAs } from './dead-letter.ts';
import { OffsetRanges } from './offset-ranges.ts';

/**
 * The header that contains the action of a marker. A record without this header is a dead letter. Readers of dead
 * letters skip records with this header.
 */
const MARKER_HEADER = 'sluice-desk';
const VERSION = 1;
/** Bytes reserved for all fields of a marker except the ranges. */
const MARKER_MARGIN = 512;

interface MarkerText {
  version: number;
  action: SettledAs;
  topic: string;
  partition: number;
  offsets: string;
}

/**
 * Creates markers for offsets of a partition. Each marker has at most `maxBytes` bytes, and a unique key, because
 * compacted topics require keys.
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
 * Parses a marker. null: the record is a dead letter, which may have the marker header because its original had it.
 * @throws SluiceError kafka_config if the marker cannot be parsed, because ignoring it could replay dead letters twice
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
