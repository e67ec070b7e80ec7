// The command line. Each command is a file in doors/commands/.
import { Command, CommanderError } from 'commander';
import { didYouMean } from './core/did-you-mean.ts';
import { SluiceError } from './core/errors.ts';
import { VERSION } from './core/version.ts';
import { EXIT } from './doors/commands/exit-codes.ts';
import { helpLine, parserMistake, reportError } from './doors/commands/report-error.ts';
import { watchStreams } from './doors/commands/standard-streams.ts';
import { decoderOverride } from './formats/decode/decoder-override.ts';

type Add = (program: Command) => void;

/**
 * Command names → the file that adds the command. Only the file of the requested command is imported, because all files
 * together would take 20 MB of memory.
 */
const COMMANDS: readonly (readonly [words: readonly string[], load: () => Promise<Add>])[] = [
  [['score'], async () => (await import('./doors/commands/score.ts')).addScoreCommand],
  [['plan'], async () => (await import('./doors/commands/plan.ts')).addPlanCommand],
  [['merge'], async () => (await import('./doors/commands/merge.ts')).addMergeCommand],
  [['shards'], async () => (await import('./doors/commands/shards.ts')).addShardsCommand],
  [['verify', 'replay'], async () => (await import('./doors/commands/check-output.ts')).addVerifyCommands],
  [['generate'], async () => (await import('./doors/commands/generate.ts')).addGenerateCommand],
  [['demo'], async () => (await import('./doors/commands/demo.ts')).addDemoCommand],
  [['serve'], async () => (await import('./doors/commands/serve.ts')).addServeCommand],
  [['explain'], async () => (await import('./doors/commands/explain.ts')).addExplainCommand],
  [['inspect'], async () => (await import('./doors/commands/inspect.ts')).addInspectCommand],
  [['model'], async () => (await import('./doors/commands/model.ts')).addModelCommand],
  [['run', 'lint', 'test'], async () => (await import('./doors/commands/run.ts')).addRunCommands],
  [['dlq'], async () => (await import('./doors/commands/dlq.ts')).addDeadLetterCommands],
  [['outcomes'], async () => (await import('./doors/commands/outcomes.ts')).addOutcomesCommand],
  [['keys'], async () => (await import('./doors/commands/keys.ts')).addKeysCommand],
  [['audit'], async () => (await import('./doors/commands/audit-chain.ts')).addAuditCommand],
  [['init'], async () => (await import('./doors/commands/init.ts')).addInitCommand],
  [['doctor'], async () => (await import('./doors/commands/doctor.ts')).addDoctorCommand],
  [['top'], async () => (await import('./doors/commands/top.ts')).addTopCommand],
  [['completion'], async () => (await import('./doors/commands/completion.ts')).addCompletionCommand],
];

/** Makes a command and its subcommands throw instead of exiting. After a usage error, each refers to its own help. */
function prepare(command: Command, words: string): void {
  command
    .exitOverride()
    .showHelpAfterError(`  ${helpLine(words)}`)
    .configureOutput({ outputError: (text, write) => write(parserMistake(text)) });
  for (const inner of command.commands) prepare(inner, `${words} ${inner.name()}`);
}

/** Name of the command that the arguments request, as far as it can be resolved, such as `sluice model add`. */
function called(words: readonly string[]): string {
  let command: Command = program;
  const names = [command.name()];
  for (const word of words.filter((w) => !w.startsWith('-'))) {
    const inner = command.commands.find((c) => c.name() === word);
    if (!inner) break;
    command = inner;
    names.push(word);
  }
  return names.join(' ');
}

/** Prints the help on a topic. @throws SluiceError usage: the word is neither a topic nor a command */
async function helpOnWord(word: string): Promise<void> {
  const { helpOnTopic, TOPICS } = await import('./doors/commands/help-topic.ts');
  const text = helpOnTopic(word);
  if (text === null) {
    const names = [...COMMANDS.flatMap(([words]) => words), ...TOPICS];
    throw new SluiceError('usage', `unknown command ${JSON.stringify(word.slice(0, 60))}${didYouMean(word, names)}`);
  }
  process.stdout.write(text);
}

watchStreams([process.stdout, process.stderr]);
const program = new Command('sluice')
  .description('bulk credit scoring: applications in, a prediction for every row out')
  .version(VERSION);
const [, , first = '', second = ''] = process.argv;
const asked = COMMANDS.filter(([words]) => words.includes(first === 'help' ? second : first));
for (const [, load] of asked) (await load())(program);
if (asked.length === 0) {
  const { addOutlines } = await import('./doors/commands/outlines.ts');
  const names = COMMANDS.flatMap(([words]) => words);
  addOutlines(program, names);
}
prepare(program, program.name());

try {
  // Handled here, because commander would print the whole help for an unknown command.
  if (first === 'help' && second !== '' && asked.length === 0) await helpOnWord(second);
  else {
    // An unknown value of SLUICE_DECODER must be rejected before anything is opened.
    decoderOverride();
    await program.parseAsync();
  }
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
  else process.exitCode = reportError(error, called(process.argv.slice(2)));
}
