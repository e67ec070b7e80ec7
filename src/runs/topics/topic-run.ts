// Starts, watches, reports and stops a run from a topic, for every destination of its answers.

import { connectorOf } from '../../connectors/connectors.ts';
import type { FileSink } from '../../connectors/file/file-options.ts';
import { connectionOf } from '../../connectors/kafka/connection-settings.ts';
import { withAdvice } from '../../connectors/kafka/kafka-error-messages.ts';
import type { KafkaSink } from '../../connectors/kafka/kafka-options.ts';
import { topicsWritten } from '../../connectors/kafka/topics.ts';
import type { PostgresSink } from '../../connectors/postgres/postgres-options.ts';
import { SluiceError } from '../../core/errors.ts';
import { keepLoaded } from '../../engine/model-host.ts';
import { newResult, type RunContext, type RunningPipeline } from '../context.ts';
import { AnswerRecords, type TopicSpec } from './answer-records.ts';
import type { AnswerSink, TopicReading } from './answer-sink.ts';
import { beginMeasuring } from './kafka-metrics.ts';
import { kafkaPlacesOf, watchOf } from './topic-source.ts';

/** @throws SluiceError kafka_* | schema_registry_unavailable */
export async function startTopicRun(spec: TopicSpec, context: RunContext): Promise<RunningPipeline> {
  beginMeasuring(context);
  let reading: TopicReading | null = null;
  const open = (added?: readonly string[]) =>
    AnswerRecords.open(spec, context, {
      onPause: (reason) => reading?.pause(reason),
      ...(added ? { added } : {}),
    });
  const { reading: opened, answers } = await openReading(spec, context, open);
  reading = opened;
  const places = kafkaPlacesOf(spec, opened.reads, topicsWritten(spec));
  const advised = (error: unknown): never => {
    throw error instanceof SluiceError ? withAdvice(error, places) : error;
  };
  const flow = context.account.flow();
  flow.open();
  const release = flow.hold(() => opened.held);
  let started: { done: Promise<void> };
  try {
    started = await opened.start();
  } catch (error) {
    release();
    answers.close();
    return advised(error);
  }
  const done = started.done.catch(advised).finally(() => {
    release();
    answers.close();
  });
  done.catch(() => {});
  const watch = watchOf(places, connectionOf(spec.kafka), context);
  // Starts loading the model before the first record arrives: a pipeline whose model cannot be loaded is not ready.
  const model = keepLoaded(await context.host(), [spec.model]);
  return {
    progress: () => ({ counts: context.account.progress, bytesRead: 0, totalBytes: null, lag: opened.lag() }),
    ready: () => opened.ready && !answers.paused && watch.well && model.ready,
    done: done.then(newResult),
    stop: async (deadlineMs) => {
      answers.stop();
      await watch.stop();
      model.stop();
      await opened.stop(deadlineMs);
      answers.close();
    },
  };
}

type OpenAnswers = (added?: readonly string[]) => Promise<AnswerRecords>;

async function openReading(
  spec: TopicSpec,
  context: RunContext,
  open: OpenAnswers,
): Promise<{ reading: TopicReading; answers: AnswerRecords }> {
  const { sink } = spec;
  const { writes } = connectorOf(sink).capabilities;
  if (writes === 'records') {
    const { TransactionalReading } = await import('./topic-answers.ts');
    const answers = await open();
    return { answers, reading: new TransactionalReading(spec as TopicSpec<KafkaSink>, context, answers) };
  }
  let target: AnswerSink;
  if (writes === 'rows') {
    const { TableAnswers } = await import('./table-answers.ts');
    target = new TableAnswers(spec as TopicSpec<PostgresSink>, context);
  } else {
    const { FileAnswers } = await import('./file-answers.ts');
    target = await FileAnswers.open(spec as TopicSpec<FileSink>, context);
  }
  const { OrderedReading } = await import('./answer-sink.ts');
  const answers = await open(target.added);
  return { answers, reading: new OrderedReading(spec, context, answers, target) };
}
