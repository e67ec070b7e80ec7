// `sluice generate`: creates a portfolio of synthetic applications for trials and measurements.
import { once } from 'node:events';
import type { Command } from 'commander';
import { generatePortfolio, type PlantedFault } from '../../demo/portfolio.ts';
import { DELIMITERS } from '../../formats/delimited/header.ts';
import { openFileSink, openStreamSink, putFile } from '../../io/sink/file-sink.ts';
import { count } from '../../monitor/progress.ts';
import { refuseSameFiles } from '../../runs/same-files.ts';
import { addFlags } from './flags/command-spec.ts';
import { type GenerateFlags, SCORE_COMMANDS } from './flags/score-flags.ts';
import { inputDelimiter } from './score.ts';
import { signalled } from './signals.ts';

export function addGenerateCommand(program: Command): void {
  addFlags(program.command('generate'), SCORE_COMMANDS.generate).action(async (flags: GenerateFlags) => {
    await generate(flags);
    if (flags.output !== '-') process.stderr.write(`${count(flags.rows)} applications → ${flags.output}\n`);
  });
}

export async function generate(flags: GenerateFlags): Promise<void> {
  const delimiter =
    flags.delimiter === undefined && !flags.output.endsWith('.tsv')
      ? DELIMITERS.comma
      : inputDelimiter(flags.output, flags.delimiter);
  if (flags.output !== '-' && flags.faultsJson !== undefined) {
    const files = [
      { name: flags.output, role: 'the portfolio' },
      { name: flags.faultsJson, role: 'the list of errors' },
    ];
    await refuseSameFiles([], files);
  }
  const sink =
    flags.output === '-' ? openStreamSink(process.stdout, 'standard output') : await openFileSink(flags.output);
  const { signal, dispose } = signalled();
  const planted: PlantedFault[] = [];
  try {
    const options = {
      rows: flags.rows,
      seed: flags.seed,
      delimiter,
      faults: flags.faults,
      outcome: flags.outcome === true,
      ids: flags.ids === true,
      oddness: flags.clean === true ? 'none' : flags.oddness,
      drift: flags.drift === true,
    };
    for (const chunk of generatePortfolio(options, (fault) => planted.push(fault))) {
      signal.throwIfAborted();
      await sink.write(chunk);
    }
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw signal.aborted ? signal.reason : error;
  } finally {
    dispose();
  }
  if (flags.faultsJson !== undefined) await putFile(flags.faultsJson, `${JSON.stringify(planted)}\n`);
  if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain');
}
