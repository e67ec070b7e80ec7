// Options of the log, for every door that writes one.
import { choice, type Door } from './describe-option.ts';

const FORMATS = ['auto', 'json', 'text'] as const;
const LEVELS = ['debug', 'info', 'warn', 'error'] as const;

export const LOGGING = {
  format: (door: Door<(typeof FORMATS)[number]> = {}) =>
    choice('lines of the log: json for machines, text for people; auto: text on a terminal, else json', FORMATS, door),
  level: (door: Door<(typeof LEVELS)[number]> = {}) => choice('lines below it are left out', LEVELS, door),
};
