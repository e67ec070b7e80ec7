// All commands, in the order in which the help lists them.
import { type CommandSpecs, type CommandTable, commandTable } from './command-spec.ts';
import { MODEL_COMMANDS } from './model-flags.ts';
import { OUTCOME_COMMANDS, PROOF_COMMANDS } from './output-flags.ts';
import { DEAD_LETTER_COMMANDS, PIPELINE_COMMANDS } from './pipeline-flags.ts';
import { SCORE_COMMANDS, SHARD_COMMANDS } from './score-flags.ts';
import { SERVICE_COMMANDS } from './service-flags.ts';

export const COMMANDS: CommandSpecs = {
  ...SCORE_COMMANDS,
  ...SHARD_COMMANDS,
  ...PROOF_COMMANDS,
  ...PIPELINE_COMMANDS,
  ...DEAD_LETTER_COMMANDS,
  ...MODEL_COMMANDS,
  ...OUTCOME_COMMANDS,
  ...SERVICE_COMMANDS,
};

/** All commands by name. */
export const COMMAND_TABLES: Readonly<Record<string, CommandTable>> = Object.fromEntries(
  Object.entries(COMMANDS).map(([words, spec]) => [words, commandTable(spec)]),
);
