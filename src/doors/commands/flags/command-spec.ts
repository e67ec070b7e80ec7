// Describes the commands, and configures the command-line parser from their descriptions.
import { Argument, type Command, Option } from 'commander';
import type { Static, TSchema } from 'typebox';
import { text, toggle } from '../../../config/options/describe-option.ts';
import { registryAddress, SCORING } from '../../../config/options/scoring.ts';
import { SluiceError } from '../../../core/errors.ts';
import type { RunOption } from '../../../runs/plugin.ts';
import { wholeNumber } from '../whole-number.ts';
import { addExamples, headingOf } from './help-groups.ts';

/** What a shell completes for a value, in addition to the choices in the value's schema. */
type Completion = 'file' | 'folder' | 'model';

export interface FlagSpec {
  schema: TSchema;
  /** A single letter. */
  short?: string;
  /** Placeholder of the value in the help. Default: derived from the schema. */
  value?: string;
  required?: true;
  complete?: Completion;
}

interface ArgumentSpec {
  name: string;
  description: string;
  optional?: true;
  /** Whether the argument accepts one or more values. */
  many?: true;
  choices?: readonly string[];
  complete?: Completion;
}

export interface CommandSpec {
  description: string;
  arguments?: readonly ArgumentSpec[];
  /** The flags, by name in snake_case: `batch_rows` becomes `--batch-rows`. */
  flags: Readonly<Record<string, FlagSpec>>;
}

/** Commands by name. */
export type CommandSpecs = Readonly<Record<string, CommandSpec>>;

type Camel<S extends string> = S extends `${infer A}_${infer B}` ? `${A}${Capitalize<Camel<B>>}` : S;
type Always = { required: true } | { schema: { default: unknown } };
type ValueOf<F> = F extends { schema: infer S extends TSchema } ? Static<S> : never;
type Names<F, K extends keyof F> = K extends string ? Camel<K> : never;

/** The parsed flags of a command. Flags that are required, or that have a default, are always present. */
export type FlagsOf<C extends { flags: object }> = {
  [K in keyof C['flags'] as C['flags'][K] extends Always ? Names<C['flags'], K> : never]: ValueOf<C['flags'][K]>;
} & {
  [K in keyof C['flags'] as C['flags'][K] extends Always ? never : Names<C['flags'], K>]?: ValueOf<C['flags'][K]>;
};

// Flags shared by several commands.

export const registryFlag = { schema: registryAddress(), value: 'address', complete: 'folder' } as const;
export const signKeyFlag = {
  schema: SCORING.sign_key({ otherwise: '$SLUICE_SIGN_KEY, else manifests are not signed' }),
  value: 'file',
  complete: 'file',
} as const;

/** Flags of commands that run once and exit. */
export const METRICS_FLAGS = {
  metrics_file: {
    schema: text('write the metrics to this file at the end, for a textfile collector'),
    value: 'file',
    complete: 'file',
  },
  push_gateway: {
    schema: text('push the metrics to this Prometheus Pushgateway at the end'),
    value: 'address',
  },
} as const;

export const switchFlag = (description: string) => ({ schema: toggle(description) });

export const camelCase = (name: string): string =>
  name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

/**
 * The options of run features as flags. A default appears only in the description, because the flag must stay absent
 * unless the user sets it.
 */
export function flagsOfFeatures<O extends Readonly<Record<string, RunOption>>>(options: O) {
  const flags = Object.entries<RunOption>(options).map(([name, { schema, value, complete }]) => {
    const { default: otherwise, description, ...node } = schema as Node;
    const text = otherwise === undefined ? description : `${description}; default: ${otherwise}`;
    return [name, { schema: { ...node, description: text }, ...(value && { value }), ...(complete && { complete }) }];
  });
  return Object.fromEntries(flags) as { [K in keyof O]: { schema: Omit<O[K]['schema'], 'default'> & TSchema } };
}

/** Groups of commands. A group itself has no action. */
export const COMMAND_GROUPS = {
  dlq: 'list, show, count, replay and drop dead letters',
  model: 'register, list, verify models and move aliases',
  audit: 'check audit logs',
  keys: 'create, list, rotate and revoke API keys',
} as const;

// Shells with a completion script.

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

// Commands in the form that the parser, the help and the completion scripts need.

/** A flag. Without `value`, the flag is a switch. */
export interface Flag {
  /** Name of the flag without dashes. */
  name: string;
  short?: string;
  /** Placeholder of the value in the help. */
  value?: string;
  description: string;
  /** Range of a number. `whole`: fractions are not allowed. `above`: exclusive minimum. */
  number?: { whole?: true; min?: number; max?: number; above?: number };
  choices?: readonly string[];
  /** Whether the flag accepts several values. */
  many?: true;
  default?: string | number | readonly string[];
  required?: true;
  /** What the shell completes for the value. */
  complete?: Completion;
}

export interface CommandArgument {
  /** The argument with its brackets: `<file>`, `[version]`, `<files...>`. */
  name: string;
  description: string;
  choices?: readonly string[];
  complete?: Completion;
}

export interface CommandTable {
  description: string;
  arguments: readonly CommandArgument[];
  flags: readonly Flag[];
}

export function commandTable(spec: CommandSpec): CommandTable {
  return {
    description: spec.description,
    arguments: (spec.arguments ?? []).map(argumentOf),
    flags: Object.entries(spec.flags).map(([name, flag]) => flagOf(name, flag)),
  };
}

function argumentOf({ name, description, optional, many, choices, complete }: ArgumentSpec): CommandArgument {
  const word = `${name}${many ? '...' : ''}`;
  return {
    name: optional ? `[${word}]` : `<${word}>`,
    description,
    ...(choices ? { choices } : {}),
    ...(complete ? { complete } : {}),
  };
}

type Node = TSchema & {
  type?: string;
  description?: string;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  default?: string | number | boolean | string[];
};

function flagOf(key: string, { schema, short, value, required, complete }: FlagSpec): Flag {
  const node = schema as Node;
  const { type, description = '', minimum, maximum, exclusiveMinimum } = node;
  const numeric = type === 'integer' || type === 'number';
  return {
    name: key.replaceAll('_', '-'),
    ...(short === undefined ? {} : { short }),
    ...(type === 'boolean' ? {} : { value: value ?? (numeric ? 'n' : 'name') }),
    description,
    ...(numeric
      ? {
          number: {
            ...(type === 'integer' ? { whole: true as const } : {}),
            ...(minimum === undefined ? {} : { min: minimum }),
            ...(maximum === undefined ? {} : { max: maximum }),
            ...(exclusiveMinimum === undefined ? {} : { above: exclusiveMinimum }),
          },
        }
      : {}),
    ...(node.enum ? { choices: node.enum } : {}),
    ...(type === 'array' ? { many: true as const } : {}),
    ...(node.default === undefined || typeof node.default === 'boolean' ? {} : { default: node.default }),
    ...(required ? { required } : {}),
    ...(complete === undefined ? {} : { complete }),
  };
}

/** Adds description, arguments and flags to a command. The schemas of the flags provide the checks of their values. */
export function addFlags(command: Command, spec: CommandSpec): Command {
  const table = commandTable(spec);
  command.description(table.description);
  for (const { name, description, choices } of table.arguments) {
    const argument = new Argument(name, description);
    if (choices) argument.argParser(oneOf(name, choices));
    command.addArgument(argument);
  }
  for (const flag of table.flags) {
    const option = optionOf(flag);
    const heading = headingOf(flag.name, table.flags.length);
    command.addOption(heading === undefined ? option : option.helpGroup(heading));
  }
  addExamples(command, wordsOf(command));
  return command;
}

/** The words of a command, without the name of the program. */
function wordsOf(command: Command): string {
  const { parent } = command;
  return parent?.parent ? `${parent.name()} ${command.name()}` : command.name();
}

/** The flags that the user set. */
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
