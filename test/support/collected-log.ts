// A log that keeps its lines, for tests that read them.
import type { Log, LogFields, LogLevel } from '../../src/core/log.ts';

export interface LogLine {
  level: LogLevel;
  event: string;
  says: string;
  fields: LogFields;
}

export interface CollectedLog {
  log: Log;
  lines: LogLine[];
  /** All of it as a machine would read it. */
  text(): string;
}

export function collectedLog(): CollectedLog {
  const lines: LogLine[] = [];
  return {
    lines,
    log: (level, event, says, fields = {}) => void lines.push({ level, event, says, fields }),
    text: () => lines.map((line) => JSON.stringify(line)).join('\n'),
  };
}
