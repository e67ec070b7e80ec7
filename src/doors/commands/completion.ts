// `sluice completion`: the script that completes commands, flags and their values in a shell.
import type { Command } from 'commander';
import type { Shell } from '../../config/commands/command-spec.ts';
import { bashCompletion } from './completion-bash.ts';
import { fishCompletion } from './completion-fish.ts';
import { zshCompletion } from './completion-zsh.ts';
import { COMMAND_TABLES } from './flag-tables.ts';
import { addFlags } from './flags.ts';

const SCRIPTS: Record<Shell, () => string> = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };

export function addCompletionCommand(program: Command): void {
  addFlags(program.command('completion'), COMMAND_TABLES.completion).action((shell: Shell) => {
    process.stdout.write(SCRIPTS[shell]());
  });
}
