// Writes the commands of the command line as plain tables, with the types of their parsed flags.
import type { TSchema } from 'typebox';
import { COMMAND_GROUPS, COMMANDS } from '../../src/config/commands/all-commands.ts';
import type { ArgumentSpec, CommandSpec, FlagSpec } from '../../src/config/commands/command-spec.ts';
import type { CommandArgument, CommandTable, Flag } from '../../src/doors/commands/flags.ts';

type Node = TSchema & {
  type?: string;
  description?: string;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  default?: string | number | boolean | string[];
};

/** src/doors/commands/flag-tables.ts */
export function flagTables(): string {
  const commands = Object.entries(COMMANDS);
  return [
    '// Written by `npm run docs` from src/config/commands: commands and their flags as plain data, so that a command line loads no schema.',
    "import type { CommandTable } from './flags.ts';",
    '',
    `export const COMMAND_GROUPS_TABLE: Readonly<Record<string, string>> = ${JSON.stringify(COMMAND_GROUPS)};`,
    '',
    'export const COMMAND_TABLES = {',
    ...commands.flatMap(([words, spec]) => tableLines(words, commandTable(spec))),
    '} as const satisfies Record<string, CommandTable>;',
    ...commands
      .filter(([, spec]) => Object.keys(spec.flags).length > 0)
      .flatMap(([words, spec]) => typeLines(words, spec)),
    '',
  ].join('\n');
}

/** The table of a command, as the command line has it. */
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

function flagOf(key: string, { schema, short, value, required, complete }: FlagSpec): Flag {
  const node = schema as Node;
  const { type, description, minimum, maximum, exclusiveMinimum } = node;
  if (!description) throw new Error(`${key} has no description`);
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

function tableLines(words: string, { description, arguments: args, flags }: CommandTable): string[] {
  return [
    `  ${JSON.stringify(words)}: {`,
    `    description: ${JSON.stringify(description)},`,
    `    arguments: [${args.map((a) => JSON.stringify(a)).join(', ')}],`,
    '    flags: [',
    ...flags.map((f) => `      ${JSON.stringify(f)},`),
    '    ],',
    '  },',
  ];
}

/** `export interface ScoreFlags`: what the command gets from commander. */
function typeLines(words: string, { flags }: CommandSpec): string[] {
  const name = words.replaceAll(/(?:^|[ -])(\w)/g, (_, letter: string) => letter.toUpperCase());
  return [
    '',
    `export interface ${name}Flags {`,
    ...Object.entries(flags).map(([key, { schema, required }]) => {
      const there = required || (schema as Node).default !== undefined;
      const camel = key.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
      return `  ${camel}${there ? '' : '?'}: ${typeOf(schema as Node)};`;
    }),
    '}',
  ];
}

function typeOf(node: Node): string {
  if (node.enum) return node.enum.map((v) => `'${v}'`).join(' | ');
  if (node.type === 'array') return 'string[]';
  return { boolean: 'boolean', integer: 'number', number: 'number', string: 'string' }[node.type ?? ''] ?? 'unknown';
}
