// Writes the table of events of docs/logs.md; a test compares it.
import { LOG_EVENTS } from '../../src/core/log.ts';

/** The table as Markdown. */
export const eventsTable = (): string =>
  [
    '| event | when |',
    '| --- | --- |',
    ...Object.entries(LOG_EVENTS).map(([name, when]) => `| \`${name}\` | ${when} |`),
  ].join('\n');
