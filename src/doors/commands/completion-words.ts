// Data for completion scripts: first words, second words, and the tables of all commands.
import { COMMAND_TABLES } from './flags/all-commands.ts';
import { COMMAND_GROUPS, type CommandTable } from './flags/command-spec.ts';

export const TABLES: readonly (readonly [words: string, table: CommandTable])[] = Object.entries(COMMAND_TABLES);

/** Commands and command groups with their descriptions. */
export const FIRST_WORDS: readonly (readonly [word: string, description: string])[] = [
  ...TABLES.filter(([words]) => !words.includes(' ')).map(([word, { description }]) => [word, description] as const),
  ...Object.entries(COMMAND_GROUPS),
];

/** The command groups, each with its second words. */
export const GROUPS: readonly (readonly [group: string, words: readonly (readonly [string, string])[]])[] = Object.keys(
  COMMAND_GROUPS,
).map((group) => [
  group,
  TABLES.filter(([words]) => words.startsWith(`${group} `)).map(
    ([words, { description }]) => [words.slice(group.length + 1), description] as const,
  ),
]);

/** Quotes text as a single shell word. */
export const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
