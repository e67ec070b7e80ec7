// `sluice explain`: one application of a file as a waterfall, in the terminal and as a page.
import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { SluiceError } from '../../core/errors.ts';
import { DELIMITERS, type DelimiterName } from '../../io/decode/header.ts';
import { openFile } from '../../io/source/byte-source.ts';
import { type ExplainedRow, explainRow } from '../../runs/explain-row.ts';
import { openRegistry } from './open-registry.ts';
import { signalled } from './signals.ts';
import { waterfall } from './waterfall.ts';
import { waterfallPage } from './waterfall-page.ts';
import { wholeNumber } from './whole-number.ts';

interface ExplainFlags {
  row: number;
  model: string;
  delimiter?: string;
  registry?: string;
  html?: string;
  top: number;
  json?: boolean;
}

export function addExplainCommand(program: Command): void {
  program
    .command('explain')
    .description('draw why one application of a file got its score')
    .argument('<file>', 'CSV or TSV file with a header row')
    .requiredOption('--row <n>', 'data row, from 1', wholeNumber('row', 1, 2 ** 31))
    .requiredOption('-m, --model <ref>', 'model: id, id:version or id@alias')
    .option('--delimiter <name>', 'tab, comma, semicolon, pipe (default: by the name of the file)')
    .option('--top <n>', 'columns drawn one by one; the rest together', wholeNumber('top', 1, 2000), 12)
    .option('--html <file>', 'write a page that needs nothing else')
    .option('--registry <address>', 'folder, s3://… or mlflow+https://… (default: $SLUICE_REGISTRY or ./models)')
    .option('--json', 'the answer as it is, on standard output')
    .action(explain);
}

async function explain(file: string, flags: ExplainFlags): Promise<void> {
  const name = flags.delimiter ?? (/\.(tsv|tab)$/i.test(file) ? 'tab' : 'comma');
  if (!Object.hasOwn(DELIMITERS, name))
    throw new SluiceError('usage', `--delimiter takes one of ${Object.keys(DELIMITERS).join(', ')}`);
  const model = await (await openRegistry(flags.registry)).resolve(flags.model);
  const source = await openFile(file);
  const { signal, dispose } = signalled();
  let answer: ExplainedRow;
  try {
    answer = await explainRow({ model, source, row: flags.row, delimiter: DELIMITERS[name as DelimiterName], signal });
  } finally {
    dispose();
  }
  if (answer.error)
    throw new SluiceError(answer.error.code, `row ${flags.row}: ${answer.error.column ?? ''} ${answer.error.message}`);
  if (flags.html !== undefined) await writeFile(flags.html, waterfallPage(model.ref, answer, flags.top));
  process.stdout.write(
    flags.json ? `${JSON.stringify(answer)}\n` : waterfall(model.ref, answer, flags.top, process.stdout.columns ?? 100),
  );
}
