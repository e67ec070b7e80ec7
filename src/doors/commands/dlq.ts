// `sluice dlq list`, `show`, `count`, `replay` and `drop`: the dead-letter queue.
import type { Command } from 'commander';
import { connectionOf } from '../../connectors/kafka/connection-settings.ts';
import { DeadLetterCounter, selects } from '../../connectors/kafka/dlq/dead-letter.ts';
import { DeadLetterTopic } from '../../connectors/kafka/dlq/dead-letter-topic.ts';
import { type SettleOptions, settleDeadLetters } from '../../connectors/kafka/dlq/settle-dead-letters.ts';
import { epochMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import { readPipeline } from '../../runs/read-pipeline.ts';
import { say } from './drive-run.ts';
import { EXIT } from './exit-codes.ts';
import { addFlags, COMMAND_GROUPS } from './flags/command-spec.ts';
import {
  DEAD_LETTER_COMMANDS,
  type DlqCountFlags,
  type DlqDropFlags,
  type DlqListFlags,
  type DlqReplayFlags,
  type DlqShowFlags,
} from './flags/pipeline-flags.ts';
import { type SelectionFlags, selectionOf } from './letter-selection.ts';
import {
  bytesJson,
  LIST_HEAD,
  letterBlock,
  letterJson,
  listCells,
  listLine,
  settleWords,
  tallyWords,
} from './letter-words.ts';
import { signalled } from './signals.ts';

/** A wait for an open transaction is reported after this time in ms. */
const TOLD_AFTER_MS = 3_000;

const out = (text: string): void => {
  process.stdout.write(`${text}\n`);
};

export function addDeadLetterCommands(program: Command): void {
  const dlq = program.command('dlq').description(COMMAND_GROUPS.dlq);
  addFlags(dlq.command('list'), DEAD_LETTER_COMMANDS['dlq list']).action(list);
  addFlags(dlq.command('show'), DEAD_LETTER_COMMANDS['dlq show']).action(show);
  addFlags(dlq.command('count'), DEAD_LETTER_COMMANDS['dlq count']).action(count);
  addFlags(dlq.command('replay'), DEAD_LETTER_COMMANDS['dlq replay']).action(replay);
  addFlags(dlq.command('drop'), DEAD_LETTER_COMMANDS['dlq drop']).action(drop);
}

async function list(file: string, flags: DlqListFlags): Promise<void> {
  const selection = selectionOf(flags, epochMs());
  let listed = 0;
  await reading(file, async (letters) => {
    if (!flags.json) out(listLine(LIST_HEAD));
    for await (const found of letters.letters(await letters.survey(), flags.partition)) {
      if (!flags.settled && found.state !== 'open') continue;
      if (!selects(selection, found.letter, found.record.key)) continue;
      if (listed === flags.limit)
        return say(`there are more than ${listed} dead letters: use --limit to list more, or dlq count`);
      listed++;
      out(flags.json ? JSON.stringify(letterJson(found)) : listLine(listCells(found)));
    }
  });
}

async function show(file: string, place: string, flags: DlqShowFlags): Promise<void> {
  const [, partition, offset] = /^(\d{1,9}):(\d{1,15})$/.exec(place) ?? [];
  if (partition === undefined) throw new SluiceError('usage', 'a position must be PARTITION:OFFSET, such as 0:17');
  await reading(file, async (letters) => {
    for await (const found of letters.letters(await letters.survey(), Number(partition))) {
      if (String(found.letter.offset) !== offset) continue;
      const { key, value } = found.record;
      if (flags.json) {
        const values = flags.value ? { ...bytesJson('key', key), ...bytesJson('value', value) } : {};
        out(JSON.stringify({ ...letterJson(found), ...values }));
      } else if (flags.value) process.stdout.write(value ?? '');
      else out(letterBlock(found));
      return;
    }
    throw new SluiceError('usage', `no dead letter at ${place}; sluice dlq list shows the positions`);
  });
}

async function count(file: string, flags: DlqCountFlags): Promise<void> {
  const selection = selectionOf(flags, epochMs());
  const counter = new DeadLetterCounter(flags.by);
  await reading(file, async (letters) => {
    for await (const { letter, record, state } of letters.letters(await letters.survey(), flags.partition)) {
      if (selects(selection, letter, record.key)) counter.add(letter, state);
    }
  });
  const { tally } = counter;
  out(flags.json ? JSON.stringify({ ...tally, by: Object.fromEntries(tally.by) }) : tallyWords(tally));
}

async function replay(file: string, flags: DlqReplayFlags): Promise<void> {
  const report = await settling(file, flags, {
    action: 'replayed',
    topic: flags.topic,
    timestamp: flags.timestamp,
  });
  const { settled, left, unusable, failed } = report;
  if (flags.json) out(JSON.stringify({ replayed: settled, skipped: left, unusable, failed }));
  else out(settleWords(report, 'replayed', flags.dryRun === true));
  if (failed.length > 0) process.exitCode = EXIT.rejected;
}

async function drop(file: string, flags: DlqDropFlags): Promise<void> {
  const selection = selectionOf(flags, epochMs());
  if (!flags.all && Object.keys(selection).length === 0) {
    throw new SluiceError('usage', 'select the dead letters to drop, or use --all');
  }
  const report = await settling(file, flags, { action: 'dropped' });
  if (flags.json) out(JSON.stringify({ dropped: report.settled, skipped: report.left }));
  else out(settleWords(report, 'dropped', flags.dryRun === true));
}

async function settling(
  file: string,
  flags: SelectionFlags & { limit?: number; reopen?: boolean; dryRun?: boolean },
  what: Pick<SettleOptions, 'action' | 'topic' | 'timestamp'>,
) {
  const selection = selectionOf(flags, epochMs());
  const pipeline = await readPipeline(file);
  const { limit, reopen, dryRun } = flags;
  const { signal, dispose } = signalled();
  try {
    return await settleDeadLetters({
      ...what,
      connection: connectionOf(pipeline.kafka),
      deadLetterTopic: deadLetterTopicOf(pipeline, file),
      ...(pipeline.sink.type === 'kafka' ? { compression: pipeline.sink.compression } : {}),
      selection,
      limit,
      reopen,
      dryRun,
      signal,
      onWait: tellOnce(),
    });
  } finally {
    dispose();
  }
}

async function reading(file: string, read: (letters: DeadLetterTopic) => Promise<void>): Promise<void> {
  const pipeline = await readPipeline(file);
  const topic = deadLetterTopicOf(pipeline, file);
  const { signal, dispose } = signalled();
  await using letters = new DeadLetterTopic({
    connection: connectionOf(pipeline.kafka),
    topic,
    signal,
    onWait: tellOnce(),
  });
  try {
    await read(letters);
  } catch (error) {
    // After an interruption, throws the reason for the interruption instead of this error.
    signal.throwIfAborted();
    throw error;
  } finally {
    dispose();
  }
}

function deadLetterTopicOf(pipeline: Pipeline, file: string): string {
  if (pipeline.dead_letter?.type !== 'kafka')
    throw new SluiceError('usage', `${file} names no dead-letter topic (dead_letter)`);
  return pipeline.dead_letter.topic;
}

function tellOnce(): (partition: number, ms: number) => void {
  let told = false;
  return (partition, ms) => {
    if (told || ms < TOLD_AFTER_MS) return;
    told = true;
    say(`waiting for an open transaction in partition ${partition} of the dead-letter topic`);
  };
}
