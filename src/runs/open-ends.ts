// Opens source and sink of a step. A sink of records is opened once and shared by all steps.
import { createHash } from 'node:crypto';
import { connectorOf } from '../connectors/connectors.ts';
import type { PredictionSink } from '../connectors/contract/connector.ts';
import type { CommitSet } from '../io/sink/commit-set.ts';
import { seenChunks } from '../io/source/byte-taps.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { type OpenSink, type OpenSource, withOutput } from './byte-ends.ts';
import type { RunContext } from './context.ts';
import { openQuerySource, openSink, openSource } from './endpoints.ts';
import type { Taps } from './plugin.ts';
import type { Checkpoint } from './plugins/interrupted-run.ts';
import type { RunStep } from './same-files.ts';
import { type FileRunSpec, fileScoringOf } from './spec.ts';

/** Where an output is written, and the observers of its bytes. */
interface OutputTarget {
  set: CommitSet;
  /** The checkpoint after which the output is appended; null if the output is new. */
  from: Checkpoint | null;
  taps: Taps;
}

export class RunEnds {
  readonly #spec: FileRunSpec;
  readonly #context: RunContext;
  readonly #model: ModelPackage;
  /** The sink of records, shared by all steps. */
  #shared: PredictionSink | null = null;
  readonly #stored = new Map<string, number>();

  constructor(spec: FileRunSpec, context: RunContext, model: ModelPackage) {
    this.#spec = spec;
    this.#context = context;
    this.#model = model;
  }

  /** @throws SluiceError input_* | output_* | database_* | kafka_* | usage */
  async open({ input, output }: RunStep, target: OutputTarget): Promise<{ source: OpenSource; sink: OpenSink }> {
    const [spec, manifest] = [this.#spec, this.#model.manifest];
    const { passthrough, interpretation } = fileScoringOf(spec);
    const { set, from, taps } = target;
    const source = input.query
      ? await openQuerySource(input.query, { manifest, passthrough })
      : await openSource({ ...input, recordBytes: spec.score.record_bytes }, spec.tuning?.readBytes, {
          stored: taps.onSourceBytes,
          rows: taps.onInputRows,
        });
    try {
      if (output === null) return await this.#openWhole(source);
      const sink = await openSink(output, {
        ...{ manifest, passthrough, interpretation, set, from },
        stored: taps.onStored,
        onRows: taps.onOutputRows,
        goOn: taps.verifyWritten,
      });
      return { source, sink };
    } catch (error) {
      await source.close();
      throw error;
    }
  }

  /** Uses the sink of records instead of a byte stream. */
  async #openWhole(opened: OpenSource): Promise<{ source: OpenSource; sink: OpenSink }> {
    if (this.#shared) return { source: opened, sink: this.#shared };
    const spec = this.#spec;
    const { capabilities, openSink: open } = connectorOf(spec.sink);
    const { passthrough, interpretation } = fileScoringOf(spec);
    let source = opened;
    const sink = await open!(spec.sink, {
      ...{ manifest: this.#model.manifest, packageSha256: this.#model.sha256 },
      ...{ passthrough, interpretation, pipeline: spec, log: this.#context.log },
      stored: this.#stored,
      digestInput: () => {
        const hash = createHash('sha256');
        source = { ...opened, chunks: seenChunks(opened.chunks, (bytes) => hash.update(bytes)) };
        return () => hash.digest('hex');
      },
    });
    if (capabilities.writes === 'records') {
      this.#shared = sink;
      return { source, sink };
    }
    return { source, sink: withOutput(sink, sink.output) };
  }

  async close(): Promise<void> {
    await this.#shared?.close?.();
  }
}
