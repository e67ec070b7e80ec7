// How values of topics are read and written: JSON as it is, or Avro through a schema registry.
import type { Pipeline } from '../config/pipeline-schema.ts';
import type { Tally } from '../engine/counts.ts';
import { PREDICTION_FIELDS } from '../io/format/prediction-fields.ts';
import { AvroDecoder, AvroEncoder } from '../kafka/avro/avro-codec.ts';
import { SchemaRegistry } from '../kafka/avro/schema-registry.ts';
import { readSecret } from '../kafka/client/connection.ts';
import type { RecordAnswer, RecordScorer, ScoredRecords } from './record-scorer.ts';

export interface RecordFormat {
  /** Scores values in the format of the source. */
  score(scorer: RecordScorer, values: readonly (Buffer | null)[]): Promise<ScoredRecords>;
  /** A prediction (JSON) in the format of the sink. */
  encode(json: Buffer): Buffer;
}

/** @throws SluiceError schema_registry_unavailable | kafka_config */
export async function recordFormat({
  source,
  sink,
  schema_registry: config,
}: Pick<Pipeline, 'source' | 'sink' | 'schema_registry'>): Promise<RecordFormat> {
  const registry = config
    ? new SchemaRegistry({
        url: config.url,
        timeoutMs: config.timeout_ms,
        ...(config.username === undefined ? {} : { username: config.username }),
        ...(config.password === undefined ? {} : { password: readSecret(config.password) }),
      })
    : null;
  const decoder = registry && source.type === 'kafka' && source.format === 'avro' ? new AvroDecoder(registry) : null;
  const encoder =
    registry && sink.type === 'kafka' && sink.format === 'avro'
      ? await AvroEncoder.open(registry, sink.topic, PREDICTION_FIELDS)
      : null;
  return {
    score: decoder ? (scorer, values) => scoreAvro(decoder, scorer, values) : (scorer, values) => scorer.score(values),
    encode: encoder ? (json) => encoder.encode(json) : (json) => json,
  };
}

/** Values that cannot be decoded are rejected in place, the others are scored. */
async function scoreAvro(
  decoder: AvroDecoder,
  scorer: RecordScorer,
  values: readonly (Buffer | null)[],
): Promise<ScoredRecords> {
  const decoded = await Promise.all(values.map((v) => decoder.decode(v)));
  const valid = decoded.flatMap((d) => ('json' in d ? [d.json] : []));
  const { model, answers, tallies } = await scorer.score(valid);
  let next = 0;
  return {
    model,
    answers: decoded.map(
      (d): RecordAnswer =>
        'json' in d ? answers[next++]! : { value: null, error: { code: 'malformed_avro', message: d.fault } },
    ),
    tallies: valid.length === values.length ? tallies : [...tallies, undecodable(values.length - valid.length)],
  };
}

const undecodable = (rows: number): Tally => ({
  rows,
  scored: 0,
  rejected: rows,
  rejectedByCode: { malformed_avro: rows },
  interpreted: 0,
  inexact: 0,
  details: [],
  workMs: 0,
});
