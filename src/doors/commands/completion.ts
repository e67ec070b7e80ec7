// `sluice completion`: prints the script that completes commands, flags and values in a shell.
import type { Command } from 'commander';
import { bashCompletion } from './completion-bash.ts';
import { fishCompletion } from './completion-fish.ts';
import { zshCompletion } from './completion-zsh.ts';
import type { Shell } from './flags/command-spec.ts';
import { addFlags } from './flags/command-spec.ts';
import { SERVICE_COMMANDS } from './flags/service-flags.ts';

const SCRIPTS: Record<Shell, () => string> = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };

export function addCompletionCommand(program: Command): void {
  addFlags(program.command('completion'), SERVICE_COMMANDS.completion).action((shell: Shell) => {
    process.stdout.write(SCRIPTS[shell]());
  });
}
