// Dates, times, decimals and bytes as text that loses nothing: ISO 8601 and plain digits, the same for Parquet and Arrow.

/** Units of a second that a time or timestamp counts. */
export type PerSecond = 1 | 1_000 | 1_000_000 | 1_000_000_000;

const DAY_SECONDS = 86_400n;
/** Days from 0000-03-01 to 1970-01-01, and days of 400 years (proleptic Gregorian calendar). */
const EPOCH_DAYS = 719_468;
const ERA_DAYS = 146_097;

const two = (n: number): string => String(n).padStart(2, '0');

/**
 * A day counted from 1970-01-01 as `2024-02-29`. Works for every 32-bit day, which a JavaScript Date does not; years beyond 9999 have
 * a sign and six digits, as in ISO 8601. Algorithm: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
 */
export function dateText(day: number): string {
  const shifted = day + EPOCH_DAYS;
  const era = Math.floor(shifted / ERA_DAYS);
  const ofEra = shifted - era * ERA_DAYS;
  const yearOfEra = Math.floor(
    (ofEra - Math.floor(ofEra / 1460) + Math.floor(ofEra / 36_524) - Math.floor(ofEra / 146_096)) / 365,
  );
  const ofYear = ofEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const shiftedMonth = Math.floor((5 * ofYear + 2) / 153);
  const date = ofYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1;
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9;
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0);
  const digits =
    year >= 0 && year <= 9999
      ? String(year).padStart(4, '0')
      : `${year < 0 ? '-' : '+'}${String(Math.abs(year)).padStart(6, '0')}`;
  return `${digits}-${two(month)}-${two(date)}`;
}

/** Seconds of a day and the fraction of a second in `perSecond` units: `12:34:56.123000`, as many decimals as the unit has. */
function clockText(seconds: number, fraction: bigint, perSecond: PerSecond): string {
  const time = `${two(Math.floor(seconds / 3600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return perSecond === 1 ? time : `${time}.${String(fraction).padStart(String(perSecond).length - 1, '0')}`;
}

/** A time of day in units since midnight. */
export function timeText(units: bigint, perSecond: PerSecond): string {
  const per = BigInt(perSecond);
  return clockText(Number(units / per), units % per, perSecond);
}

/** A timestamp in units since 1970-01-01T00:00. `utc`: it is an instant, which ends with Z; otherwise a local time, which does not. */
export function timestampText(units: bigint, perSecond: PerSecond, utc: boolean): string {
  const per = BigInt(perSecond);
  const perDay = DAY_SECONDS * per;
  const ofDay = ((units % perDay) + perDay) % perDay;
  const day = Number((units - ofDay) / perDay);
  return `${dateText(day)}T${timeText(ofDay, perSecond)}${utc ? 'Z' : ''}`;
}

/** A span of time as `PT1.5S` (ISO 8601). */
export function durationText(units: bigint, perSecond: PerSecond): string {
  const size = units < 0n ? -units : units;
  const per = BigInt(perSecond);
  let fraction = size % per === 0n ? '' : `.${String(size % per).padStart(String(perSecond).length - 1, '0')}`;
  while (fraction.endsWith('0')) fraction = fraction.slice(0, -1);
  return `${units < 0n ? '-' : ''}PT${size / per}${fraction}S`;
}

/** Digits behind the point, or zeros in front of it, that a decimal may have: formats allow 76. */
const MOST_SCALE = 1000;

/** @throws Error */
export function checkScale(scale: number): void {
  if (!(Math.abs(scale) <= MOST_SCALE)) throw new Error('a decimal has a scale that cannot be');
}

/** The digits of an unscaled value with `scale` of them behind the point; a negative scale adds zeros. */
export function decimalText(unscaled: bigint, scale: number): string {
  checkScale(scale);
  if (scale <= 0) return String(unscaled * 10n ** BigInt(-scale));
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0');
  return `${unscaled < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

/** Twelve bytes of months, days and milliseconds (Parquet's INTERVAL), as Avro's duration is written. */
export function intervalText(view: DataView, at: number): string {
  const [months, days, ms] = [0, 4, 8].map((by) => view.getUint32(at + by, true)) as [number, number, number];
  return `P${months}M${days}DT${ms / 1000}S`;
}

export const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');

/** A floating-point number that JSON has no number for, as ProtoJSON writes it: `"NaN"`, `"Infinity"`, `"-Infinity"`. */
export const nonFiniteToken = (value: number): string => `"${value}"`;
