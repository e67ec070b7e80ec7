// A time of day is its next occurrence on local clocks, whatever the calendar, the zone and daylight saving do.

import { afterEach, expect, test } from 'vitest';
import { localTime, momentOf } from '../../src/core/time-of-day.ts';
import fc from '../support/seeded-fast-check.ts';

const before = process.env.TZ;
afterEach(() => {
  if (before === undefined) delete process.env.TZ;
  else process.env.TZ = before;
});

test.each([
  ['Europe/Berlin', '06:00', '2026-11-22T23:00:00+01:00', '2026-11-23T06:00:00+01:00'],
  ['Europe/Berlin', '06:00', '2026-11-23T05:59:00+01:00', '2026-11-23T06:00:00+01:00'],
  // Seventeen hours ahead is ahead.
  ['Europe/Berlin', '23:59', '2026-11-23T06:58:00+01:00', '2026-11-23T23:59:00+01:00'],
  ['Europe/Berlin', '23:00', '2026-11-23T07:08:00+01:00', '2026-11-23T23:00:00+01:00'],
  // It was ten minutes ago: the next one is tomorrow's.
  ['Europe/Berlin', '06:00', '2026-11-23T06:10:00+01:00', '2026-11-24T06:00:00+01:00'],
  ['Europe/Berlin', '06:00', '2026-11-23T06:00:00+01:00', '2026-11-24T06:00:00+01:00'],
  ['Europe/Berlin', '23:30', '2026-11-23T00:10:00+01:00', '2026-11-23T23:30:00+01:00'],
  ['Europe/Berlin', '00:00', '2026-12-31T22:00:00+01:00', '2027-01-01T00:00:00+01:00'],
  ['Europe/Berlin', '23:59', '2026-12-31T23:59:30+01:00', '2027-01-01T23:59:00+01:00'],
  // 29 February, and the day before it in a year that has none.
  ['Europe/Berlin', '05:00', '2028-02-28T22:00:00+01:00', '2028-02-29T05:00:00+01:00'],
  ['Europe/Berlin', '05:00', '2028-02-29T22:00:00+01:00', '2028-03-01T05:00:00+01:00'],
  ['Europe/Berlin', '05:00', '2026-02-28T22:00:00+01:00', '2026-03-01T05:00:00+01:00'],
  // Clocks go back at 3:00 on 25 October: 2:30 comes twice.
  ['Europe/Berlin', '06:00', '2026-10-24T23:00:00+02:00', '2026-10-25T06:00:00+01:00'],
  ['Europe/Berlin', '02:30', '2026-10-25T01:00:00+02:00', '2026-10-25T02:30:00+02:00'],
  ['Europe/Berlin', '02:30', '2026-10-25T02:40:00+02:00', '2026-10-25T02:30:00+01:00'],
  ['Europe/Berlin', '02:30', '2026-10-25T02:40:00+01:00', '2026-10-26T02:30:00+01:00'],
  // Clocks go forward at 2:00 on 29 March: 2:30 is skipped.
  ['Europe/Berlin', '06:00', '2026-03-28T23:00:00+01:00', '2026-03-29T06:00:00+02:00'],
  ['Europe/Berlin', '02:30', '2026-03-29T01:00:00+01:00', '2026-03-29T03:30:00+02:00'],
  // East, west, half hours, no daylight saving.
  ['Pacific/Kiritimati', '23:59', '2026-11-23T06:58:00+14:00', '2026-11-23T23:59:00+14:00'],
  ['Pacific/Pago_Pago', '23:59', '2026-11-23T06:58:00-11:00', '2026-11-23T23:59:00-11:00'],
  ['America/St_Johns', '02:30', '2026-11-01T01:00:00-02:30', '2026-11-01T02:30:00-03:30'],
  ['Asia/Kolkata', '06:00', '2026-11-23T05:59:00+05:30', '2026-11-23T06:00:00+05:30'],
  ['Europe/Berlin', '2026-11-23T06:00', '2026-11-01T00:00:00+01:00', '2026-11-23T06:00:00+01:00'],
  ['Europe/Berlin', '2026-11-23 06:00:30', '2026-11-01T00:00:00+01:00', '2026-11-23T06:00:30+01:00'],
  ['Europe/Berlin', '2026-11-23T06:00Z', '2026-11-01T00:00:00+01:00', '2026-11-23T06:00:00Z'],
  ['America/New_York', '2028-02-29T06:00', '2026-11-01T00:00:00Z', '2028-02-29T06:00:00-05:00'],
])('%s: %s at %s is %s', (zone, text, now, want) => {
  process.env.TZ = zone;
  expect(new Date(momentOf(text, Date.parse(now))!).toISOString()).toBe(new Date(want).toISOString());
});

test('a time of day is at most a day and a changed clock ahead, and clocks show it then', () => {
  const zones = fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu');
  const moments = fc.integer({ min: Date.UTC(2024, 0, 1), max: Date.UTC(2030, 0, 1) });
  fc.assert(
    fc.property(zones, moments, fc.nat(23), fc.nat(59), (zone, now, hours, minutes) => {
      process.env.TZ = zone;
      const text = `${String(hours).padStart(2, '0')}:${String(minutes).padStart(2, '0')}`;
      const at = momentOf(text, now)!;
      expect(at).toBeGreaterThan(now);
      expect(at - now).toBeLessThanOrEqual(26 * 3_600_000);
      const shown = localTime(at).slice(11, 16);
      const isSkipped = hours < 4 && shown > text && shown <= `0${hours + 1}:${text.slice(3)}`;
      if (!isSkipped) expect(shown).toBe(text);
    }),
  );
});

test.each([
  ['', '6:00', '24:00', '12:60', '06:00:00', 'tomorrow', '2026-11-23', '1e3'],
  ['2026-13-01T06:00', '2026-00-10T06:00', '2026-02-29T06:00', '2026-02-31T06:00', '2026-11-31 06:00'],
  ['2026-11-23T24:01', '2026-11-23T06:60', '2026-11-00T06:00'],
])('no time: %s', (...texts) => {
  for (const text of texts) expect(momentOf(text, Date.now()), text).toBeNull();
});

test.each([
  ['Europe/Berlin', '2026-11-23T06:00:00+01:00', '2026-11-23 06:00 +01:00'],
  ['Europe/Berlin', '2026-07-01T06:05:00+02:00', '2026-07-01 06:05 +02:00'],
  ['America/St_Johns', '2026-12-01T23:59:00-03:30', '2026-12-01 23:59 -03:30'],
  ['UTC', '2028-02-29T00:00:00Z', '2028-02-29 00:00 +00:00'],
])('in %s, %s is printed as %s', (zone, moment, want) => {
  process.env.TZ = zone;
  expect(localTime(Date.parse(moment))).toBe(want);
});
