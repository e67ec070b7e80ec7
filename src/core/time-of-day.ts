// A moment that people write: a time of the day, or a date with one.

const HALF_A_DAY_MS = 12 * 3_600_000;
const TIME = /^([01]\d|2[0-3]):([0-5]\d)$/;
const DATE_AND_TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?$/;

/**
 * `06:00`, in the local time zone: the one nearest to `now`, so that a run which begins at 23:00 means tomorrow's and one which begins
 * at 06:10 is late. Or `2026-11-23T06:00`, local too where no zone is said. In ms since 1970; null for anything else.
 */
export function momentOf(text: string, now: number): number | null {
  const [, hours, minutes] = TIME.exec(text) ?? [];
  if (hours === undefined) {
    const at = DATE_AND_TIME.test(text) ? Date.parse(text.replace(' ', 'T')) : Number.NaN;
    return Number.isNaN(at) ? null : at;
  }
  const nearest = new Date(now);
  nearest.setHours(Number(hours), Number(minutes), 0, 0);
  // By days of the calendar: one on which the clocks are changed has not 24 hours.
  if (nearest.getTime() <= now - HALF_A_DAY_MS) nearest.setDate(nearest.getDate() + 1);
  else if (nearest.getTime() > now + HALF_A_DAY_MS) nearest.setDate(nearest.getDate() - 1);
  return nearest.getTime();
}
