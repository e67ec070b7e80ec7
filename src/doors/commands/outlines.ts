// All commands by their tables alone: enough for the help of the program and for words that are no command, without loading any of them.
import type { Command } from 'commander';
import { COMMAND_GROUPS_TABLE, COMMAND_TABLES } from './flag-tables.ts';
import { addFlags, type CommandTable } from './flags.ts';

/** Adds the commands of these names, in this order, and those below them. */
export function addOutlines(program: Command, names: readonly string[]): void {
  const tables: [string, CommandTable][] = Object.entries(COMMAND_TABLES);
  for (const name of names) {
    const command = program.command(name);
    for (const [words, table] of tables) {
      if (words === name) addFlags(command, table);
      else if (words.startsWith(`${name} `)) addFlags(command.command(words.slice(name.length + 1)), table);
    }
    const group = COMMAND_GROUPS_TABLE[name];
    if (group !== undefined) command.description(group);
  }
}
