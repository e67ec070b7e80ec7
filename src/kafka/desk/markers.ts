// What is settled is written into the dead letter topic itself: markers, in one transaction with what they tell of, in the partition of
// the letters they name. They need no further topic or permission, and last as long as the letters: retention removes what is older first.
import { SluiceError } from '../../core/errors.ts';
import type { IncomingRecord, OutgoingRecord } from '../client/records.ts';
import { headerText } from '../dead-letters.ts';
import { OffsetRanges } from './offset-ranges.ts';

/** `adopted`: passed by the replay of a release that had no markers, which put it back or left it out; nobody knows which. */
export type SettledAs = 'replayed' | 'dropped' | 'adopted';
export const SETTLED_AS: readonly SettledAs[] = ['replayed', 'dropped', 'adopted'];

/** Says what a marker tells of; a record without it is a letter. Foreign readers that count letters leave out whatever has it. */
export const MARKER_HEADER = 'sluice-desk';
const VERSION = 1;
/** Room for what stands around the ranges, bytes. */
const MARKER_MARGIN = 512;

interface MarkerText {
  version: number;
  action: SettledAs;
  topic: string;
  partition: number;
  offsets: string;
}

/** Markers for these offsets of a partition, each at most `maxBytes`. Their key is unique, as topics that are compacted demand one. */
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
 * What a marker tells of; null: the record is a letter, even where its original carried such a header or was a marker elsewhere.
 * @throws SluiceError kafka_config when it cannot be understood: taking it for nothing could put letters back twice
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
    throw new SluiceError('kafka_config', `${place}: a marker that cannot be read`, { cause: error });
  }
}
