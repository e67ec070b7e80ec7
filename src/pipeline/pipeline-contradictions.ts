// Finds contradictions that the schema of a pipeline cannot express: keys that exclude or require each other. Rules
// that concern a single connector are in its folder.

import type { YamlDocument } from '../config/yaml.ts';
import type { YamlProblem } from '../config/yaml-problem.ts';
import { CONNECTORS, connectorOf } from '../connectors/connectors.ts';
import type { Connector, LintedPipeline, Reads, Say } from '../connectors/contract/connector.ts';
import { epochMs } from '../core/clock.ts';
import { momentOf } from '../core/time-of-day.ts';
import { REJECTS_COLUMNS } from '../formats/delimited/rejects.ts';
import { formatEntry, isColumnar, isDelimited } from '../formats/formats.ts';
import { declaredContradictions } from './declaration-contradictions.ts';
import type { Pipeline } from './pipeline-schema.ts';

/** All contradictions, each at the key that must be changed. */
export async function contradictions(pipeline: Pipeline, document: YamlDocument): Promise<YamlProblem[]> {
  const problems: YamlProblem[] = [];
  const say: Say = (path, message) => {
    problems.push(document.atPath(path.split('.'), message));
  };
  const source = connectorOf(pipeline.source);
  const ends: Ends = { source, sink: connectorOf(pipeline.sink), reads: source.capabilities.reads! };
  judgeScore(pipeline, ends, say);
  judgeInput(pipeline, ends, say);
  judgeSink(pipeline, ends, say);
  judgeOptionsOfRuns(pipeline, ends, say);
  const linted: LintedPipeline = {
    ...pipeline,
    reads: ends.reads,
    writes: ends.sink.capabilities.writes!,
    several: source.isPattern?.(pipeline.source) ?? false,
  };
  for (const connector of Object.values<Connector>(CONNECTORS)) await connector.lint?.(linted, say);
  return problems.sort((a, b) => a.line - b.line || a.column - b.column);
}

/** The connectors of a pipeline. */
interface Ends {
  source: Connector;
  sink: Connector;
  reads: Reads;
}

function judgeScore({ score, sink: to, dead_letter }: Pipeline, { sink, reads }: Ends, say: Say): void {
  if (score.interactions !== undefined && score.interpretation !== 'effects') {
    say('score.interactions', 'score.interactions: needs interpretation: effects');
  }
  const passed = score.passthrough === '*' ? [] : (score.passthrough ?? []);
  const twice = passed.find((column, i) => passed.indexOf(column) < i);
  if (twice !== undefined) say('score', `passthrough: ${twice} is named twice`);
  const listed = dead_letter?.type === 'file' ? passed.find((column) => REJECTS_COLUMNS.includes(column)) : undefined;
  if (listed !== undefined) say('score', `passthrough: ${listed} is also a column of the rejects file`);
  const format = sink.formatOf?.(to) ?? null;
  if (score.passthrough === '*' && reads !== 'records' && format !== null && isColumnar(format)) {
    say('score', `passthrough: ${formatEntry(format).title} needs a list of columns`);
  }
}

/** Checks the declarations of an input, including its trailer. */
function judgeInput({ source, score }: Pipeline, ends: Ends, say: Say): void {
  const format = ends.source.formatOf?.(source) ?? null;
  for (const { key, message } of declaredContradictions(source, format, score.passthrough ?? [])) {
    say(`source.${key}`, `source.${message}`);
  }
  if (!('trailer' in source) || source.trailer === undefined) return;
  if (format !== null && !isDelimited(format))
    say('source.trailer', 'source.trailer is supported for csv and tsv only');
  if (source.trailer.extra_rows !== undefined && source.trailer.rows_field === undefined)
    say('source.trailer', 'source.trailer: extra_rows needs rows_field');
}

function judgeSink({ delivery, dead_letter, on_invalid }: Pipeline, { sink, reads }: Ends, say: Say): void {
  const { takes, transact } = sink.capabilities;
  if (!takes.includes(reads)) {
    if (reads === 'requests') say('sink', 'the sink of an upload must be a file or a topic');
    if (reads === 'records') say('sink', 'the sink of a topic must be a topic, a table or files');
  }
  if (delivery === 'exactly_once' && !(reads === 'records' && transact) && reads !== 'requests') {
    say(
      'delivery',
      'delivery: exactly_once needs topics as source and sink, a topic and a table, or an upload as the source',
    );
  }
  if (on_invalid === 'dead_letter' && !dead_letter)
    say('on_invalid', 'on_invalid: dead_letter needs the key dead_letter');
}

function judgeOptionsOfRuns(
  { allow_empty, deadline, gate, report, run_records }: Pipeline,
  { sink, reads }: Ends,
  say: Say,
): void {
  const finite = reads === 'bytes' || reads === 'rows';
  const ofUploads = reads === 'requests';
  const input = ofUploads ? 'uploads' : 'topics';
  if (gate !== undefined && !finite) say('gate', `gate: is not supported for ${input}; use alerts on drift`);
  else if (gate !== undefined && !sink.capabilities.withhold) {
    say('gate', 'gate: needs a file or table as the sink, because other outputs cannot be held back');
  }
  if (allow_empty !== undefined && !finite)
    say('allow_empty', 'allow_empty: is supported for files, queries and standard input only');
  if (report !== undefined && !finite) say('report', `report: is not supported for ${input}`);
  if (run_records !== undefined && !finite) {
    const instead = ofUploads ? '' : '; the metrics port serves their state at /pipelines';
    say('run_records', `run_records: is not supported for ${input}${instead}`);
  }
  if (deadline !== undefined && !finite)
    say('deadline', 'deadline: is supported for files, queries and standard input only');
  if (deadline !== undefined && momentOf(deadline, epochMs()) === null) {
    say('deadline', 'deadline: must be a time of day (06:00) or a date and time (2026-11-23T06:00)');
  }
}
