// Gives a command its description, arguments and flags from its table, with the checks of values that the table names.
import { Argument, type Command, Option } from 'commander';
import { SluiceError } from '../../core/errors.ts';
import { wholeNumber } from './whole-number.ts';

/** A flag as plain data; without `value` it is a switch. */
export interface Flag {
  /** As it is typed, without the dashes. */
  name: string;
  short?: string;
  /** Word for the value in the help. */
  value?: string;
  description: string;
  /** Bounds of a number; `whole`: of one without fraction. `above`: greater than this. */
  number?: { whole?: true; min?: number; max?: number; above?: number };
  choices?: readonly string[];
  /** Takes several values. */
  many?: true;
  default?: string | number | readonly string[];
  required?: true;
  /** Values for shell completion. */
  complete?: 'file' | 'folder' | 'model';
}

export interface CommandArgument {
  /** With its brackets: `<file>`, `[version]`, `<files...>`. */
  name: string;
  description: string;
  choices?: readonly string[];
  complete?: 'file' | 'folder' | 'model';
}

export interface CommandTable {
  description: string;
  arguments: readonly CommandArgument[];
  flags: readonly Flag[];
}

export function addFlags(command: Command, table: CommandTable): Command {
  command.description(table.description);
  for (const { name, description, choices } of table.arguments) {
    const argument = new Argument(name, description);
    if (choices) argument.argParser(oneOf(name, choices));
    command.addArgument(argument);
  }
  for (const flag of table.flags) command.addOption(optionOf(flag));
  return command;
}

/** Flags that were given. */
export const given = <T extends object>(flags: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined)) as never;

function optionOf(flag: Flag): Option {
  const value = flag.value === undefined ? '' : ` <${flag.value}${flag.many ? '...' : ''}>`;
  const option = new Option(
    `${flag.short === undefined ? '' : `-${flag.short}, `}--${flag.name}${value}`,
    flag.description,
  );
  if (flag.default !== undefined) option.default(flag.default);
  if (flag.required) option.makeOptionMandatory();
  if (flag.number) option.argParser(flag.number.whole ? wholeWithin(flag) : numberWithin(flag));
  if (flag.choices) {
    option.argChoices = [...flag.choices];
    option.argParser(oneOf(`--${flag.name}`, flag.choices));
  }
  return option;
}

const wholeWithin = ({ name, number }: Flag): ((text: string) => number) =>
  wholeNumber(name, number?.min ?? 0, number?.max ?? Number.MAX_SAFE_INTEGER);

/** @throws SluiceError usage */
function numberWithin({ name, number = {} }: Flag): (text: string) => number {
  const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY, above } = number;
  const lower = number.min !== undefined ? ` from ${min}` : above !== undefined ? ` above ${above}` : '';
  const bound = `${lower}${number.max === undefined ? '' : ` to ${max}`}`;
  return (text) => {
    const n = text.trim() === '' ? Number.NaN : Number(text);
    const within = n >= min && n <= max && (above === undefined || n > above);
    if (!within) throw new SluiceError('usage', `--${name} takes a number${bound}`);
    return n;
  };
}

/** @throws SluiceError usage */
function oneOf(name: string, choices: readonly string[]): (text: string) => string {
  return (text) => {
    if (choices.includes(text)) return text;
    const others = choices.slice(0, -1).join(', ');
    throw new SluiceError('usage', `${name} takes ${others} or ${choices.at(-1)}`);
  };
}
