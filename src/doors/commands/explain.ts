// `sluice explain`: explains one application of a file with a waterfall chart, in the terminal and as an HTML page.
import type { Command } from 'commander';
import { epochMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { putFile } from '../../io/sink/file-sink.ts';
import { type ExplainedRow, explainRow } from '../../runs/checks/explain-row.ts';
import { endpoint } from '../../runs/endpoint-specs.ts';
import { openSource } from '../../runs/endpoints.ts';
import { refuseSameFiles } from '../../runs/same-files.ts';
import { refuseContradictions } from '../../runs/spec.ts';
import { declaredSaid } from './declared-words.ts';
import { addFlags } from './flags/command-spec.ts';
import { type ExplainFlags, SCORE_COMMANDS } from './flags/score-flags.ts';
import { openRegistry } from './open-registry.ts';
import { signalled } from './signals.ts';
import { waterfall } from './waterfall.ts';

export function addExplainCommand(program: Command): void {
  addFlags(program.command('explain'), SCORE_COMMANDS.explain).action(explain);
}

async function explain(file: string, flags: ExplainFlags): Promise<void> {
  const said = {
    format: flags.inputFormat ?? (flags.delimiter === undefined ? undefined : 'csv'),
    delimiter: flags.delimiter,
    ...declaredSaid(flags),
  };
  const from = endpoint(file, said, 'csv');
  refuseContradictions({ type: 'file', path: file, ...declaredSaid(flags) }, from.format, []);
  if (flags.html !== undefined) {
    await refuseSameFiles([{ name: file, role: 'the input' }], [{ name: flags.html, role: 'the page' }]);
  }
  const model = await (await openRegistry(flags.registry)).resolve(flags.model);
  const source = await openSource(from);
  const { signal, dispose } = signalled();
  let answer: ExplainedRow;
  try {
    answer = await explainRow({ model, source, row: flags.row, interactions: flags.interactions, signal });
  } finally {
    dispose();
  }
  if (answer.error)
    throw new SluiceError(answer.error.code, `row ${flags.row}: ${answer.error.column ?? ''} ${answer.error.message}`);
  if (flags.html !== undefined) {
    const { waterfallPage } = await import('./waterfall-page.ts');
    const { scorecard, onnx } = model.manifest;
    const origin = {
      model: model.ref,
      packageSha256: model.sha256,
      modelSha256: onnx.sha256,
      file,
      at: new Date(epochMs()),
      pointsPerLogOdds: scorecard ? scorecard.points_to_double_odds / Math.LN2 : null,
    };
    await putFile(flags.html, waterfallPage(answer, flags.top, origin));
  }
  process.stdout.write(
    flags.json ? `${JSON.stringify(answer)}\n` : waterfall(model.ref, answer, flags.top, process.stdout.columns ?? 100),
  );
}
