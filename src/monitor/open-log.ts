// Writes the log: JSON lines for programs, or text for people.
import type { Log, LogFields, LogLevel, Word } from '../core/log.ts';
import { VERSION } from '../core/version.ts';
import type { Metrics } from './metrics.ts';

export interface LogSettings {
  /** `auto`: text if standard error is a terminal, otherwise JSON. */
  format: 'auto' | 'json' | 'text';
  /** Minimum level of the lines that are written. */
  level: LogLevel;
}

export interface OpenedLog {
  log: Log;
  /** Whether the log is JSON. If so, messages that only concern people are omitted. */
  json: boolean;
}

const RANKS: Record<LogLevel, number> = { debug: 20, info: 30, warn: 40, error: 50, fatal: 60 };

/** Opens a log on standard error. Lines that can no longer be written are dropped (see `standard-streams.ts`). */
export async function openLog({ format, level }: LogSettings): Promise<OpenedLog> {
  const json = format === 'json' || (format === 'auto' && process.stderr.isTTY !== true);
  return { json, log: json ? await jsonLog(level) : textLog(level) };
}

/** A log for people. A line consists of `sluice: `, the message, and the code, id and source location of an error. */
export function textLog(level: LogLevel = 'info'): Log {
  return (at, _event, says, fields) => {
    if (RANKS[at] >= RANKS[level]) process.stderr.write(`sluice: ${says}${tailOf(fields)}\n`);
  };
}

function tailOf(fields: LogFields | undefined): string {
  if (fields === undefined) return '';
  const { code, request_id: request, stack } = fields;
  const at = Array.isArray(stack) && stack.length > 0 ? ` at ${(stack as Word[]).slice(0, 4).join(' < ')}` : '';
  return `${at}${code ? ` [${code}]` : ''}${request ? `, request ${request}` : ''}`;
}

async function jsonLog(level: LogLevel): Promise<Log> {
  // Imported on demand: most commands write no JSON log, and the import takes a third of their start-up time.
  const { pino, stdTimeFunctions } = await import('pino');
  const logger = pino(
    {
      level,
      base: { service: 'sluice', version: VERSION, pid: process.pid },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => process.stderr.write(line) },
  );
  return (at, event, says, fields) => logger[at]({ event, ...fields }, says);
}

// Counts log lines by level. Lines below the configured level count, too.

export const counted =
  (log: Log, metrics: Metrics): Log =>
  (level, event, says, fields) => {
    metrics.logLines.inc({ level });
    log(level, event, says, fields);
  };
