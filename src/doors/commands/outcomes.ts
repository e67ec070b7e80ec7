// `sluice outcomes`: compares predictions with the actual outcomes of the applications.

import type { Command } from 'commander';
import { epochMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { putFile } from '../../io/sink/file-sink.ts';
import { measureOutcomes } from '../../outcomes/measure-outcomes.ts';
import type { OutcomeReport } from '../../outcomes/outcome-report.ts';
import type { MonthColumn } from '../../outcomes/read-labels.ts';
import { isModelName } from '../../outcomes/read-predictions.ts';
import { endpoint } from '../../runs/endpoint-specs.ts';
import { readPipeline } from '../../runs/read-pipeline.ts';
import { addFlags } from './flags/command-spec.ts';
import { OUTCOME_COMMANDS, type OutcomesFlags } from './flags/output-flags.ts';
import { fileSource, labelTopic, predictionFiles, predictionTopics, refuseOverwriting } from './outcome-sources.ts';
import { joinWords, outcomeTables } from './outcome-words.ts';
import { signalled } from './signals.ts';

export function addOutcomesCommand(program: Command): void {
  addFlags(program.command('outcomes'), OUTCOME_COMMANDS.outcomes).action(outcomes);
}

async function outcomes(patterns: string[], flags: OutcomesFlags): Promise<void> {
  refuseContradictions(patterns, flags);
  const files = (await Promise.all(patterns.map((name) => predictionFiles(name, flags)))).flat();
  const labelsFile = flags.labels === undefined ? null : endpoint(flags.labels, labelFormat(flags), 'csv');
  await refuseOverwriting([...files, ...(labelsFile ? [labelsFile] : [])], flags);
  const pipeline = flags.pipeline === undefined ? null : await readPipeline(flags.pipeline);
  const sources = files.length > 0 ? files.map(fileSource) : await predictionTopics(pipeline!);
  const fromTopics = files.length === 0;
  const labels = labelsFile ? fileSource(labelsFile) : await labelTopic(pipeline!, flags.labelsTopic!);
  const { signal, dispose } = signalled();
  try {
    const report = await measureOutcomes({
      labels: {
        ...labels,
        key: flags.labelKey ?? (labelsFile ? (flags.key ?? null) : null),
        outcome: flags.outcome,
        positive: words(flags.positive),
        negative: words(flags.negative),
        onDuplicate: flags.onDuplicate ?? (labelsFile ? 'refuse' : 'last'),
      },
      predictions: {
        sources,
        key: flags.key ?? null,
        probability: flags.probability,
        model: flags.model ?? null,
        modelColumn: flags.modelColumn ?? null,
        onDuplicate: flags.onDuplicate ?? (fromTopics ? 'last' : 'refuse'),
      },
      month: monthColumn(flags),
      signal,
    });
    await hand(report, flags, { predictions: sources.map(({ name }) => name), labels: labels.name });
  } catch (error) {
    // After an interruption, throws the reason for the interruption instead of this error.
    signal.throwIfAborted();
    throw error;
  } finally {
    dispose();
  }
}

/** Writes and prints the report. */
async function hand(
  report: OutcomeReport,
  flags: OutcomesFlags,
  names: { predictions: string[]; labels: string },
): Promise<void> {
  const json = `${JSON.stringify(report)}\n`;
  if (flags.output !== undefined) await putFile(flags.output, json);
  if (flags.metricsFile !== undefined) {
    const { OutcomeMetrics } = await import('../../monitor/left-metrics.ts');
    await putFile(flags.metricsFile, await new OutcomeMetrics(report.groups).text());
  }
  if (flags.html !== undefined) {
    const { outcomePage } = await import('./outcome-page.ts');
    await putFile(flags.html, outcomePage(report, { ...names, at: new Date(epochMs()) }));
  }
  process.stderr.write(`${joinWords(report)}\n`);
  process.stdout.write(flags.json ? json : `${outcomeTables(report)}\n`);
}

/** Rejects contradictory flags. @throws SluiceError usage */
function refuseContradictions(patterns: readonly string[], flags: OutcomesFlags): void {
  const wrong = [
    (flags.labels === undefined) === (flags.labelsTopic === undefined) && 'missing outcomes: use --labels or --labels-topic',
    patterns.length === 0 && flags.pipeline === undefined && 'missing predictions: name files, or use --pipeline to read its output topics',
    flags.labelsTopic !== undefined && flags.pipeline === undefined && '--labels-topic needs --pipeline for the brokers',
    patterns.length > 0 && flags.key === undefined && 'files of predictions need --key, the column that identifies the application',
    flags.labels !== undefined && flags.labelKey === undefined && flags.key === undefined && '--labels needs --label-key, the column that identifies the application',
    flags.month !== undefined && flags.time !== undefined && '--month and --time are mutually exclusive',
    flags.model !== undefined && flags.modelColumn !== undefined && '--model and --model-column are mutually exclusive',
    flags.model !== undefined && !isModelName(flags.model) && '--model takes id:version, because an alias may have moved since',
  ].find((words) => words !== false); // biome-ignore format: a table
  if (wrong) throw new SluiceError('usage', wrong);
}

const words = (list: string): string[] => list.split(',').filter((word) => word !== '');

const monthColumn = ({ month, time }: OutcomesFlags): MonthColumn | null =>
  month !== undefined ? { column: month, kind: 'month' } : time !== undefined ? { column: time, kind: 'time' } : null;

const labelFormat = ({ labelsFormat: format, labelsDelimiter: delimiter }: OutcomesFlags) => ({
  format: format ?? (delimiter === undefined ? undefined : ('csv' as const)),
  delimiter,
});
