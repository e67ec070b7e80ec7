// Starts a pipeline, whatever its ends are.
import type { Pipeline } from '../config/pipeline-config.ts';
import type { RunContext, RunningPipeline } from './context.ts';
import { startFilePipeline } from './file-pipeline.ts';
import { startTopicFiles } from './topic-files.ts';
import { startTopicPipeline } from './topic-pipeline.ts';

/** @throws SluiceError kafka_* | model_* | input_* | output_* */
export function startPipeline(pipeline: Pipeline, context: RunContext): Promise<RunningPipeline> {
  if (pipeline.source.type !== 'kafka') return startFilePipeline(pipeline, context);
  return pipeline.sink.type === 'kafka' ? startTopicPipeline(pipeline, context) : startTopicFiles(pipeline, context);
}
