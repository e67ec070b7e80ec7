#!/usr/bin/env node
// The command line: each command is a file in commands/.
import { Command, CommanderError } from 'commander';
import { EXIT, tellError } from './commands/common.ts';
import { addDemoCommand } from './commands/demo.ts';
import { addDoctorCommand } from './commands/doctor.ts';
import { addExplainCommand } from './commands/explain.ts';
import { addGenerateCommand } from './commands/generate.ts';
import { addKeysCommand } from './commands/keys.ts';
import { addModelCommand } from './commands/model.ts';
import { addRunCommands } from './commands/run.ts';
import { addScoreCommand } from './commands/score.ts';
import { addServeCommand } from './commands/serve.ts';
import { VERSION } from './core/version.ts';

const program = new Command('sluice')
  .description('bulk credit scoring: applications in, a prediction for every row out')
  .version(VERSION)
  .exitOverride()
  .showHelpAfterError();
addScoreCommand(program);
addGenerateCommand(program);
addDemoCommand(program);
addServeCommand(program);
addExplainCommand(program);
addModelCommand(program);
addRunCommands(program);
addKeysCommand(program);
addDoctorCommand(program);
for (const command of program.commands) {
  command.exitOverride();
  for (const inner of command.commands) inner.exitOverride();
}

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
  else process.exitCode = tellError(error);
}
