// The commands as scripts for shells need them: words of the first and the second place, and the tables behind them.
import { COMMAND_TABLES } from './flags/all-commands.ts';
import { COMMAND_GROUPS, type CommandTable } from './flags/command-spec.ts';

export const TABLES: readonly (readonly [words: string, table: CommandTable])[] = Object.entries(COMMAND_TABLES);

/** Commands and groups with their descriptions. */
export const FIRST_WORDS: readonly (readonly [word: string, description: string])[] = [
  ...TABLES.filter(([words]) => !words.includes(' ')).map(([word, { description }]) => [word, description] as const),
  ...Object.entries(COMMAND_GROUPS),
];

/** Each group with its words of the second place. */
export const GROUPS: readonly (readonly [group: string, words: readonly (readonly [string, string])[]])[] = Object.keys(
  COMMAND_GROUPS,
).map((group) => [
  group,
  TABLES.filter(([words]) => words.startsWith(`${group} `)).map(
    ([words, { description }]) => [words.slice(group.length + 1), description] as const,
  ),
]);

/** A text as one word of a shell. */
export const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
