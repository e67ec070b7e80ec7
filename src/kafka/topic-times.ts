// Which times of records a topic takes and keeps: retention goes by the time a record has, not by when it was written.

/** Default of a broker's retention.ms; taken when the settings may not be read. */
const DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000;
/** Most that the clocks of a broker and of this machine may differ, and a record may take to get there, ms. */
const CLOCK_MARGIN_MS = 60_000;

/** What `topicTimes` looks at. */
export const TIME_SETTINGS = [
  'cleanup.policy',
  'retention.ms',
  'message.timestamp.type',
  'message.timestamp.before.max.ms',
  'message.timestamp.after.max.ms',
  // Brokers before 3.6 have this one instead of the two.
  'message.timestamp.difference.max.ms',
] as const;

export interface TopicTimes {
  /** Records are removed this long after the time they have, ms; Infinity: never. */
  readonly retentionMs: number;
  /** An older record would be refused, or removed before readers had it for half of the retention, ms. */
  readonly maxAgeMs: number;
  /** A record that is more ahead of now would be refused, ms. */
  readonly maxAheadMs: number;
}

/** Every record gets the time of now: what the topic takes is not known, only that it refused some. */
export const ONLY_NOW: TopicTimes = { retentionMs: Infinity, maxAgeMs: -Infinity, maxAheadMs: -Infinity };

/** null: the settings may not be read. */
export function topicTimes(settings: ReadonlyMap<string, string> | null): TopicTimes {
  const limit = (name: (typeof TIME_SETTINGS)[number]): number => {
    const value = Number(settings?.get(name) || -1);
    return Number.isFinite(value) && value >= 0 ? value : Infinity;
  };
  const deletes = settings === null || (settings.get('cleanup.policy') ?? 'delete').includes('delete');
  const given = settings === null ? DEFAULT_RETENTION_MS : limit('retention.ms');
  const retentionMs = deletes ? given : Infinity;
  // The broker gives every record a time of its own.
  if (settings?.get('message.timestamp.type') === 'LogAppendTime') {
    return { retentionMs, maxAgeMs: Infinity, maxAheadMs: Infinity };
  }
  const either = limit('message.timestamp.difference.max.ms');
  const behind = withinClocks(Math.min(limit('message.timestamp.before.max.ms'), either));
  const ahead = withinClocks(Math.min(limit('message.timestamp.after.max.ms'), either));
  return { retentionMs, maxAgeMs: Math.min(retentionMs / 2, behind), maxAheadMs: ahead };
}

const withinClocks = (limit: number): number => limit - Math.min(CLOCK_MARGIN_MS, limit / 2);

/** Whether a record of this time would be taken, and kept for readers long enough. */
export function isTimely({ maxAgeMs, maxAheadMs }: TopicTimes, timestamp: number, now: number): boolean {
  return now - timestamp <= maxAgeMs && timestamp - now <= maxAheadMs;
}
