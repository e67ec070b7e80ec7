// Adds descriptions of all commands without their actions, for the help of the program and for the error about unknown
// commands.
import type { Command } from 'commander';
import { COMMANDS } from './flags/all-commands.ts';
import { addFlags, COMMAND_GROUPS } from './flags/command-spec.ts';

/** Adds the given commands and their subcommands, in the given order. */
export function addOutlines(program: Command, names: readonly string[]): void {
  for (const name of names) {
    const command = program.command(name);
    for (const [words, spec] of Object.entries(COMMANDS)) {
      if (words === name) addFlags(command, spec);
      else if (words.startsWith(`${name} `)) addFlags(command.command(words.slice(name.length + 1)), spec);
    }
    const group = (COMMAND_GROUPS as Readonly<Record<string, string>>)[name];
    if (group !== undefined) command.description(group);
  }
}
