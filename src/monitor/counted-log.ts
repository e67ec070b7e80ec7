// The same log with its lines counted by level, also those that the level of the log leaves out.
import type { Log } from '../core/log.ts';
import type { Metrics } from './metrics.ts';

export const counted =
  (log: Log, metrics: Metrics): Log =>
  (level, event, says, fields) => {
    metrics.logLines.inc({ level });
    log(level, event, says, fields);
  };
