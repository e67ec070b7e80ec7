// A record of the audit log: a line of JSON that contains the hash of the previous record and its own hash.
import { hash } from 'node:crypto';
import { epochMs } from '../core/clock.ts';

/**
 * The content of a record, apart from its position in the chain: fixed texts, configuration values, ids and numbers.
 */
export type AuditFields = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

/**
 * `head`: first record of a file. `opened`, `closed`: a server started or stopped. `recovered`: length and hash of the
 * partial record that a killed server left. `lost`: number of records that could not be written. All other kinds
 * describe events.
 */
export type AuditKind =
  | 'head'
  | 'opened'
  | 'closed'
  | 'recovered'
  | 'lost'
  | 'request'
  | 'job'
  | 'keys'
  | 'logins_limited';

/** Position in the chain. The records of a log are numbered from 1, through all its files. */
export interface ChainEnd {
  seq: number;
  /** SHA-256 in hexadecimal. */
  sum: string;
}

/** The position before the first record. */
export const CHAIN_START: ChainEnd = { seq: 0, sum: '0'.repeat(64) };

const SUM_KEY = ',"sum":"';
/** `,"sum":"`, 64 digits, `"}` */
const SEAL_BYTES = SUM_KEY.length + 64 + 2;
const SEAL = /^,"sum":"([0-9a-f]{64})"\}$/;

/** Creates the record that follows `end`. Returns its line, including the line end, and its position. */
export function sealRecord(end: ChainEnd, kind: AuditKind, fields: AuditFields): { line: Buffer; end: ChainEnd } {
  const seq = end.seq + 1;
  const text = JSON.stringify({ seq, prev: end.sum, time: new Date(epochMs()).toISOString(), kind, ...fields });
  const open = text.slice(0, -1);
  const sum = hash('sha256', open, 'hex');
  return { line: Buffer.from(`${open}${SUM_KEY}${sum}"}\n`), end: { seq, sum } };
}

/** A parsed record. */
export interface ReadRecord extends ChainEnd {
  prev: string;
  kind: AuditKind;
  fields: Readonly<Record<string, unknown>>;
}

/** Parses a line without its line end; returns null if the line is not a record, or was changed. */
export function readRecord(line: Buffer): ReadRecord | null {
  const at = line.length - SEAL_BYTES;
  if (at <= 0) return null;
  const sum = SEAL.exec(line.toString('latin1', at))?.[1];
  if (sum === undefined || hash('sha256', line.subarray(0, at), 'hex') !== sum) return null;
  try {
    const fields = JSON.parse(line.toString()) as ReadRecord['fields'];
    return { seq: Number(fields.seq), prev: String(fields.prev), kind: fields.kind as AuditKind, sum, fields };
  } catch {
    return null;
  }
}
