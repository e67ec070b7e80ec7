// Months as 16-bit numbers, and parsing of months and times; all times are UTC.

/** The number for an unknown month. */
export const NO_MONTH = 0xffff;

const MONTH = /^(\d{4})-(\d\d)$/;
/** Matches ISO 8601: a date, or a date and a time with or without a time zone. */
const TIME = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d(?::?\d\d)?)?)?$/;
const LAST_YEAR = 5000;

/** Parses `2026-03`. Returns NO_MONTH if the text has another format. */
export function monthOfText(text: string): number {
  const [, year, month] = MONTH.exec(text) ?? [];
  return year === undefined ? NO_MONTH : monthOf(Number(year), Number(month));
}

/**
 * The month (in UTC) of an ISO 8601 time, which is in UTC unless it has a time zone. Returns NO_MONTH if the text has
 * another format.
 */
export function monthOfTime(text: string): number {
  const [, date, time = '00:00', zone = 'Z'] = TIME.exec(text) ?? [];
  // The date is checked, because Date.parse reads 30 February as 2 March.
  if (date === undefined || !new Date(`${date}T00:00Z`).toJSON()?.startsWith(date)) return NO_MONTH;
  // Date.parse requires the minutes of a zone.
  return monthOfMs(Date.parse(`${date}T${time}${zone.length === 3 ? `${zone}:00` : zone}`));
}

/** The month of a time, given in ms since 1970. */
export function monthOfMs(ms: number): number {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? NO_MONTH : monthOf(at.getUTCFullYear(), at.getUTCMonth() + 1);
}

const monthOf = (year: number, month: number): number =>
  year >= 0 && year <= LAST_YEAR && month >= 1 && month <= 12 ? year * 12 + month - 1 : NO_MONTH;

/** Formats a month as `2026-03`; null for NO_MONTH. */
export function monthText(month: number): string | null {
  if (month === NO_MONTH) return null;
  return `${String(Math.floor(month / 12)).padStart(4, '0')}-${String((month % 12) + 1).padStart(2, '0')}`;
}
