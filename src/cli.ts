// The command line: each command is a file in commands/.
import { Command, CommanderError } from 'commander';
import { VERSION } from './core/version.ts';
import { EXIT, tellError } from './doors/commands/common.ts';
import { decoderOverride } from './io/decode/decoder-override.ts';

type Add = (program: Command) => void;

/** Words of the command line → the file that adds their command. Only what was asked for is loaded: the rest costs 20 MB. */
const COMMANDS: readonly (readonly [words: readonly string[], load: () => Promise<Add>])[] = [
  [['score'], async () => (await import('./doors/commands/score.ts')).addScoreCommand],
  [['generate'], async () => (await import('./doors/commands/generate.ts')).addGenerateCommand],
  [['demo'], async () => (await import('./doors/commands/demo.ts')).addDemoCommand],
  [['serve'], async () => (await import('./doors/commands/serve.ts')).addServeCommand],
  [['explain'], async () => (await import('./doors/commands/explain.ts')).addExplainCommand],
  [['model'], async () => (await import('./doors/commands/model.ts')).addModelCommand],
  [['run', 'lint', 'test', 'dlq'], async () => (await import('./doors/commands/run.ts')).addRunCommands],
  [['keys'], async () => (await import('./doors/commands/keys.ts')).addKeysCommand],
  [['doctor'], async () => (await import('./doors/commands/doctor.ts')).addDoctorCommand],
];

const program = new Command('sluice')
  .description('bulk credit scoring: applications in, a prediction for every row out')
  .version(VERSION)
  .exitOverride()
  .showHelpAfterError();
const asked = COMMANDS.filter(([words]) => words.includes(process.argv[2] ?? ''));
for (const [, load] of asked.length > 0 ? asked : COMMANDS) (await load())(program);
for (const command of program.commands) {
  command.exitOverride();
  for (const inner of command.commands) inner.exitOverride();
}

try {
  // An unknown SLUICE_DECODER fails before anything is opened.
  decoderOverride();
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
  else process.exitCode = tellError(error);
}
