// Parses times that users write (a time of day, or a date with a time), and formats times for messages.

const HOUR_MS = 3_600_000;
const TIME = /^([01]\d|2[0-3]):([0-5]\d)$/;
const DATE_AND_TIME = /^(\d{4})-(\d\d)-(\d\d)[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?$/;

/** Whether the calendar has this day. `Date.parse` does not check this: it reads 31 February as 3 March. */
function isDay(year: number, month: number, day: number): boolean {
  return month >= 1 && month <= 12 && day >= 1 && day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
}

/**
 * The moments (ms since 1970) at which local clocks show this time, `days` days after `now`. There are two moments if
 * clocks are set back.
 */
function onDay(now: number, days: number, hours: number, minutes: number): number[] {
  const at = new Date(now);
  // Calendar days are added, because a day on which clocks change does not have 24 hours.
  at.setDate(at.getDate() + days);
  at.setHours(hours, minutes, 0, 0);
  const again = new Date(at.getTime() + HOUR_MS);
  const isTwice = again.getHours() === at.getHours() && again.getMinutes() === at.getMinutes();
  return isTwice ? [at.getTime(), again.getTime()] : [at.getTime()];
}

/**
 * Parses `06:00` as the next moment after `now` with this local time. If clocks skip this time, the moment is one hour
 * later. Parses `2026-11-23T06:00` as local time unless it has a time zone. Returns ms since 1970; null: the text has
 * another format.
 */
export function momentOf(text: string, now: number): number | null {
  const [, hours, minutes] = TIME.exec(text) ?? [];
  if (hours === undefined) {
    const [, year, month, day] = DATE_AND_TIME.exec(text) ?? [];
    const at = isDay(Number(year), Number(month), Number(day)) ? Date.parse(text.replace(' ', 'T')) : Number.NaN;
    return Number.isNaN(at) ? null : at;
  }
  const moments = [0, 1].flatMap((days) => onDay(now, days, Number(hours), Number(minutes)));
  return moments.find((at) => at > now)!;
}

const two = (n: number): string => String(Math.abs(n)).padStart(2, '0');

/** Formats a time as `2026-11-23 06:00 +01:00`: local date and time with the offset from UTC. */
export function localTime(ms: number): string {
  const at = new Date(ms);
  const east = -at.getTimezoneOffset();
  const zone = `${east < 0 ? '-' : '+'}${two(Math.trunc(east / 60))}:${two(east % 60)}`;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())} ${zone}`;
}
