// Chooses the topic of a prediction by its decision.
import type { KafkaSink } from '../../connectors/kafka/kafka-options.ts';
import { SluiceError } from '../../core/errors.ts';
import { type ExactObject, parseExact } from '../../core/exact-json.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';

/** The routes of a sink: decisions whose predictions go to a topic of their own. */
export class TopicRoutes {
  readonly #topics: ReadonlyMap<string, string>;
  /** The model whose decisions were compared with the routes. */
  #checked: ModelPackage | null = null;

  constructor({ routes = [] }: KafkaSink) {
    this.#topics = new Map(routes.map(({ decision, topic }) => [decision, topic]));
  }

  /**
   * Rejects routes of decisions that the model never makes. Their predictions would go to the topic of the sink.
   * @throws SluiceError kafka_config
   */
  check(model: ModelPackage): void {
    if (this.#checked === model) return;
    const names = (model.manifest.decisions ?? []).map(({ name }) => name);
    const unknown = [...this.#topics.keys()].find((decision) => !names.includes(decision));
    if (unknown !== undefined) {
      const made = names.length === 0 ? 'makes no decisions' : `makes the decisions ${names.join(', ')}`;
      throw new SluiceError('kafka_config', `sink.routes: ${unknown} is no decision of the model, which ${made}`);
    }
    this.#checked = model;
  }

  /** The topic of a prediction; undefined: the topic of the sink. `parsed`: the prediction, if it had to be parsed. */
  of(prediction: Buffer): { topic: string | undefined; parsed: ExactObject | undefined } {
    if (this.#topics.size === 0) return { topic: undefined, parsed: undefined };
    const parsed = parseExact(prediction);
    return { topic: this.#topics.get((parsed.decision as string | undefined) ?? ''), parsed };
  }
}

/** Rejects routes of decisions that the model never makes, if the sink is a topic. @throws SluiceError kafka_config */
export function checkRoutes(sink: Pipeline['sink'], model: ModelPackage): void {
  if (sink.type === 'kafka') new TopicRoutes(sink as KafkaSink).check(model);
}
