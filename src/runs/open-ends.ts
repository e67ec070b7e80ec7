// Opens the source and the sink of a step. A topic is opened once for all steps.

import type { CommitSet } from '../io/sink/commit-set.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { PostgresSink } from '../pipeline/pipeline-schema.ts';
import type { RunContext } from './context.ts';
import { digestedSource, openQuerySource, openTable } from './database-ends.ts';
import { type OpenSink, type OpenSource, openSink, openSource } from './endpoints.ts';
import type { Taps } from './plugin.ts';
import type { Checkpoint } from './plugins/interrupted-run.ts';
import type { RunStep } from './same-files.ts';
import { type FileRunSpec, fileScoringOf } from './spec.ts';
import { connectionOf } from './topics/kafka-connection.ts';
import type { TopicSink } from './topics/topic-sink.ts';

/** Where an output is written and who observes its bytes. */
interface OutputTarget {
  set: CommitSet;
  /** The checkpoint that the output is appended to. */
  from: Checkpoint | null;
  taps: Taps;
}

export class RunEnds {
  readonly #spec: FileRunSpec;
  readonly #context: RunContext;
  readonly #model: ModelPackage;
  #topic: TopicSink | null = null;

  constructor(spec: FileRunSpec, context: RunContext, model: ModelPackage) {
    this.#spec = spec;
    this.#context = context;
    this.#model = model;
  }

  /** @throws SluiceError input_* | output_* | database_* | kafka_* | usage */
  async open({ input, output }: RunStep, target: OutputTarget): Promise<{ source: OpenSource; sink: OpenSink }> {
    const [spec, manifest] = [this.#spec, this.#model.manifest];
    const { passthrough, interpretation } = fileScoringOf(spec);
    const opened = input.query
      ? await openQuerySource(input.query, { manifest, passthrough })
      : await openSource({ ...input, recordBytes: spec.score.record_bytes }, spec.tuning?.readBytes, {
          stored: target.taps.onSourceBytes,
          rows: target.taps.onInputRows,
        });
    try {
      if (spec.sink.type === 'kafka') return { source: opened, sink: await this.#openTopic() };
      if (spec.sink.type === 'postgres') {
        const { source, digest } = digestedSource(opened);
        const table = { manifest, passthrough, interpretation, digest, log: this.#context.log };
        return { source, sink: await openTable(spec.sink as PostgresSink, table) };
      }
      const { set, from, taps } = target;
      const sink = await openSink(output!, {
        ...{ manifest, passthrough, interpretation, set, from },
        stored: taps.onStored,
        onRows: taps.onOutputRows,
        goOn: taps.verifyWritten,
      });
      return { source: opened, sink };
    } catch (error) {
      await opened.close();
      throw error;
    }
  }

  async #openTopic(): Promise<TopicSink> {
    const { sink, kafka } = this.#spec;
    if (this.#topic || sink.type !== 'kafka') return this.#topic!;
    // Imported lazily: a run into files must not load the Kafka client.
    const [{ openTopicSink }, { recordFormat }] = await Promise.all([
      import('./topics/topic-sink.ts'),
      import('./topics/record-format.ts'),
    ]);
    const { encode } = await recordFormat(this.#spec);
    this.#topic = await openTopicSink({ connection: connectionOf(kafka), sink, encode });
    return this.#topic;
  }

  async close(): Promise<void> {
    await this.#topic?.close();
  }
}
