// A time of the day means the one nearest to now, whatever the calendar and the clocks do.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { momentOf } from '../../src/core/time-of-day.ts';

let zone: string | undefined;
beforeEach(() => {
  zone = process.env.TZ;
  process.env.TZ = 'Europe/Berlin';
});
afterEach(() => {
  if (zone === undefined) delete process.env.TZ;
  else process.env.TZ = zone;
});

test.each([
  ['06:00', '2026-11-22T23:00:00+01:00', '2026-11-23T06:00:00+01:00'],
  ['06:00', '2026-11-23T05:59:00+01:00', '2026-11-23T06:00:00+01:00'],
  ['06:00', '2026-11-23T06:10:00+01:00', '2026-11-23T06:00:00+01:00'],
  ['23:30', '2026-11-23T00:10:00+01:00', '2026-11-22T23:30:00+01:00'],
  ['00:00', '2026-12-31T22:00:00+01:00', '2027-01-01T00:00:00+01:00'],
  // The clocks go back at 3:00 in the night to October 25.
  ['06:00', '2026-10-24T23:00:00+02:00', '2026-10-25T06:00:00+01:00'],
  ['2026-11-23T06:00', '2026-11-01T00:00:00+01:00', '2026-11-23T06:00:00+01:00'],
  ['2026-11-23 06:00:30', '2026-11-01T00:00:00+01:00', '2026-11-23T06:00:30+01:00'],
  ['2026-11-23T06:00Z', '2026-11-01T00:00:00+01:00', '2026-11-23T06:00:00Z'],
])('%s at %s is %s', (text, now, want) => {
  expect(new Date(momentOf(text, Date.parse(now))!).toISOString()).toBe(new Date(want).toISOString());
});

test.each(['', '6:00', '24:00', '12:60', '06:00:00', 'tomorrow', '2026-11-23', '2026-13-01T06:00', '1e3'])(
  '%s is none',
  (text) => {
    expect(momentOf(text, Date.now())).toBeNull();
  },
);
