// The log of `serve` and `run`: its settings, and the entry about an error that ends the command.
import { asSluiceError, SluiceError } from '../../core/errors.ts';
import { faultFields, named, saysOf } from '../../core/log.ts';
import { type LogSettings, type OpenedLog, openLog } from '../../monitor/open-log.ts';
import { exitCodeOf } from './exit-codes.ts';

interface LogFlags {
  logFormat?: string;
  logLevel?: string;
}

const FORMATS: readonly string[] = ['auto', 'json', 'text'] satisfies LogSettings['format'][];
const LEVELS: readonly string[] = ['debug', 'info', 'warn', 'error'] satisfies LogSettings['level'][];

/**
 * Log settings from flags or, for settings without a flag, from the environment; undefined if not configured.
 * @throws SluiceError usage
 */
export function saidOfLog(flags: LogFlags, env: NodeJS.ProcessEnv): { format?: string; level?: string } {
  const format = flags.logFormat ?? checked('SLUICE_LOG_FORMAT', env, FORMATS);
  const level = flags.logLevel ?? checked('SLUICE_LOG_LEVEL', env, LEVELS);
  return { ...(format === undefined ? {} : { format }), ...(level === undefined ? {} : { level }) };
}

/** The log of a command that has no other log settings. @throws SluiceError usage */
export const openCommandLog = (flags: LogFlags, env: NodeJS.ProcessEnv): Promise<OpenedLog> =>
  openLog({ format: 'auto', level: 'info', ...saidOfLog(flags, env) } as LogSettings);

function checked(name: string, env: NodeJS.ProcessEnv, choices: readonly string[]): string | undefined {
  const value = env[name];
  if (value === undefined || value === '' || choices.includes(value)) return value || undefined;
  throw new SluiceError('usage', `$${name} must be one of ${choices.join(', ')}`);
}

/**
 * Runs a command. With a JSON log, logs the error that ends the command and prints nothing else to standard error.
 * @throws SluiceError with any other log: the error that ends the command
 */
export async function orLogged(opened: OpenedLog, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!opened.json) throw error;
    process.exitCode = exitCodeOf(asSluiceError(error, 'internal_error'));
    const mends = error instanceof SluiceError ? { action: named(error.entry.action) } : {};
    const fields = { ...faultFields(error), ...mends, exit_code: process.exitCode };
    // Read after the run, because the run has added its id to the log.
    opened.log('fatal', 'command_failed', saysOf(error), fields);
  }
}
