// `sluice generate`: a portfolio of made-up applications, to try things on and to measure with.
import { once } from 'node:events';
import type { Command } from 'commander';
import { generatePortfolio, type PlantedFault } from '../../demo/portfolio.ts';
import { DELIMITERS } from '../../io/decode/header.ts';
import { openFileSink, openStreamSink } from '../../io/sink/file-sink.ts';
import { count } from '../../monitor/progress.ts';
import { inputDelimiter } from './score.ts';
import { signalled } from './signals.ts';
import { wholeNumber } from './whole-number.ts';

interface GenerateFlags {
  rows: number;
  seed: number;
  output: string;
  delimiter?: string;
  faults: number;
  outcome?: boolean;
  ids?: boolean;
  clean?: boolean;
  faultsJson?: string;
}

export function addGenerateCommand(program: Command): void {
  program
    .command('generate')
    .description('write a portfolio of made-up applications as CSV or TSV')
    .option('--rows <n>', 'applications', wholeNumber('rows', 0, 1e10), 1000)
    .option('--seed <n>', 'the same seed gives the same bytes', wholeNumber('seed', 0, 2 ** 32 - 1), 7)
    .option('-o, --output <file>', 'where it goes; - for standard output', 'portfolio.csv')
    .option('--delimiter <name>', 'tab, comma, semicolon, pipe (default: tab for .tsv, else comma)')
    .option('--faults <n>', 'broken rows among them', wholeNumber('faults', 0, 1e9), 0)
    .option('--faults-json <file>', 'where the planted faults are listed, as JSON')
    .option('--outcome', 'add the outcome column ok, for training')
    .option('--ids', 'add a leading column application_id')
    .option('--clean', 'no unseen categories')
    .action(async (flags: GenerateFlags) => {
      await generate(flags);
      if (flags.output !== '-') process.stderr.write(`${count(flags.rows)} applications → ${flags.output}\n`);
    });
}

export async function generate(flags: GenerateFlags): Promise<void> {
  const delimiter =
    flags.delimiter === undefined && !flags.output.endsWith('.tsv')
      ? DELIMITERS.comma
      : inputDelimiter(flags.output, flags.delimiter);
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
      dirty: flags.clean !== true,
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
  if (flags.faultsJson !== undefined) {
    const list = await openFileSink(flags.faultsJson);
    await list.write(Buffer.from(`${JSON.stringify(planted)}\n`));
    await list.commit();
  }
  if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain');
}
