// `sluice inspect`: reports how an unfamiliar file must be read, and prints the command that scores it.
import type { Command } from 'commander';
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { SluiceError } from '../../core/errors.ts';
import type { InspectionVerdict } from '../../inspect/inspection.ts';
import { declaredSaid } from './declared-words.ts';
import { EXIT } from './exit-codes.ts';
import { addFlags } from './flags/command-spec.ts';
import { type InspectFlags, SCORE_COMMANDS } from './flags/score-flags.ts';
import { openRegistry } from './open-registry.ts';

export function addInspectCommand(program: Command): void {
  addFlags(program.command('inspect'), SCORE_COMMANDS.inspect).action(inspect);
}

/**
 * SLUICE_EXIT_REJECTED does not apply here: nothing was scored yet, so rejected rows must be noticed in Kubernetes,
 * too.
 */
const EXIT_CODES: Readonly<Record<InspectionVerdict, number>> = {
  ready: EXIT.done,
  rejects: EXIT.undecided,
  open: EXIT.undecided,
  impossible: EXIT.failed,
};

/** The flags without those pairs of `--rename` that are still open (`column=?`), as in a printed template. */
function withoutOpen(flags: InspectFlags): InspectFlags {
  const { rename, ...others } = flags;
  const pairs = rename?.split(',').filter((pair) => !pair.endsWith('=?')) ?? [];
  return pairs.length === 0 ? others : { ...others, rename: pairs.join(',') };
}

async function inspect(file: string, flags: InspectFlags): Promise<void> {
  if (file === STDIO) {
    throw new SluiceError('usage', 'inspect reads a file twice, so it does not read standard input: save it to a file');
  }
  const model = await (await openRegistry(flags.registry)).resolve(flags.model);
  const { inspectFile } = await import('../../inspect/inspect-file.ts');
  const { model: modelName, registry, output, delimiter } = flags;
  const declared = { ...declaredSaid(withoutOpen(flags)), delimiter };
  const inspection = await inspectFile({ file, model, modelName, registry, output, declared });
  if (flags.json) process.stdout.write(`${JSON.stringify(inspection)}\n`);
  else {
    const { inspectionText } = await import('./inspection-text.ts');
    process.stdout.write(inspectionText(inspection));
  }
  process.exitCode = EXIT_CODES[inspection.verdict];
}
