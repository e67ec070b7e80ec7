// Values of flags are checked as their table says, in words that name the flag and what it takes.
import { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { asSluiceError } from '../../../src/core/errors.ts';
import { COMMAND_TABLES, COMMANDS } from '../../../src/doors/commands/flags/all-commands.ts';
import { addFlags, type Flag } from '../../../src/doors/commands/flags/command-spec.ts';
import { sluiceHere } from '../../support/cli.ts';

const FLAGS: [string, Flag][] = Object.entries(COMMAND_TABLES).flatMap(([words, { flags }]) =>
  flags.map((flag): [string, Flag] => [words, flag]),
);

/** What commander makes of one flag of a command; a fault as its code and message. */
function parsed(words: string, flag: Flag, text: string): unknown {
  const program = new Command('sluice').exitOverride().configureOutput({ writeErr: () => {} });
  let options: Record<string, unknown> = {};
  const key = flag.name.replaceAll('-', '_');
  // The others are not asked for here.
  addFlags(program.command('x').exitOverride(), {
    description: words,
    flags: { [key]: { ...COMMANDS[words]!.flags[key]!, required: true } },
  }).action((o: Record<string, unknown>) => {
    options = o;
  });
  try {
    program.parse(['x', `--${flag.name}=${text}`], { from: 'user' });
  } catch (error) {
    const { code, message } = asSluiceError(error, 'worker_failed');
    return `${code} ${message}`;
  }
  return Object.values(options)[0];
}

describe('every flag', () => {
  test('with bounds takes numbers within them', () => {
    const numbers = FLAGS.filter(([, f]) => f.number?.whole);
    expect(numbers.length).toBeGreaterThan(12);
    for (const [words, flag] of numbers) {
      const { min, max } = flag.number as { min: number; max: number };
      const refusal = `usage --${flag.name} takes a whole number from ${min} to ${max}`;
      const got = [min, max, min - 1, max + 1, 'many', '1.5'].map((v) => parsed(words, flag, String(v)));
      expect([words, flag.name, ...got]).toEqual([words, flag.name, min, max, refusal, refusal, refusal, refusal]);
    }
  });

  test('with choices takes these only', () => {
    const chosen = FLAGS.filter(([, f]) => f.choices);
    expect(chosen.length).toBeGreaterThan(8);
    for (const [words, flag] of chosen) {
      for (const choice of flag.choices!) expect(parsed(words, flag, choice)).toBe(choice);
      expect(parsed(words, flag, 'colon')).toBe(
        `usage --${flag.name} takes ${flag.choices!.slice(0, -1).join(', ')} or ${flag.choices!.at(-1)}`,
      );
    }
  });

  test('that is another number is told what it takes', () => {
    const flagOf = (words: string, name: string): [string, Flag] => [
      words,
      COMMAND_TABLES[words]!.flags.find((f) => f.name === name)!,
    ];
    expect(parsed(...flagOf('score', 'interpret-below'), 'half')).toBe('usage --interpret-below takes a number');
    expect(parsed(...flagOf('score', 'interpret-below'), '-0.5')).toBe(-0.5);
    expect(parsed(...flagOf('model add', 'tolerance'), '-1')).toBe('usage --tolerance takes a number from 0');
    expect(parsed(...flagOf('model add', 'tolerance'), '1e-7')).toBe(1e-7);
    expect(parsed(...flagOf('keys create', 'days'), '0')).toBe('usage --days takes a number above 0');
    expect(parsed(...flagOf('keys create', 'days'), '')).toBe('usage --days takes a number above 0');
  });
});

test.each([
  [['score', 'x.csv', '-m', 'm', '--workers', '0'], '--workers takes a whole number from 1 to 256'],
  [['score', 'x.csv', '-m', 'm', '--evaluator', 'fast'], '--evaluator takes auto, onnxruntime or native'],
  [['serve', '--port', 'https'], '--port takes a whole number from 0 to 65535'],
  [['completion', 'tcsh'], '<shell> takes bash, zsh or fish'],
])('%j is a usage error', async (args, words) => {
  const run = await sluiceHere(args);
  expect([run.code, run.stdout]).toEqual([2, '']);
  expect(run.stderr).toContain(`${words} [usage]`);
});
