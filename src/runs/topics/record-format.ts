// Scores record values in the format of the source, and encodes predictions in the format of the sink.

import type { KafkaSource } from '../../connectors/kafka/kafka-options.ts';
import { type EncodeValue, openRegistryOf, valueEncoder } from '../../connectors/kafka/record-values.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { Tally } from '../../engine/counts.ts';
import { openValueDecoder, RECORD_CODECS } from '../../formats/record-formats.ts';
import type { ValueDecoder } from '../../formats/schemas/value-codec.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import { type RecordAnswer, type RecordScorer, rejectedAnswer, type ScoredRecords } from './record-scorer.ts';

export interface RecordFormat {
  /** Scores values in the format of the source. */
  score(scorer: RecordScorer, values: readonly (Buffer | null)[]): Promise<ScoredRecords>;
  readonly encode: EncodeValue;
}

/** @throws SluiceError schema_registry_unavailable | kafka_config */
export async function recordFormat(
  spec: Pick<Pipeline, 'sink' | 'score' | 'schema_registry'> & { source: KafkaSource },
): Promise<RecordFormat> {
  const { source, sink, schema_registry: config } = spec;
  const encode = await valueEncoder(sink, spec);
  if (!config || source.format === 'json') return { score: (scorer, values) => scorer.score(values), encode };
  const decoder = await openValueDecoder(source.format, openRegistryOf(config), source.reader_schema);
  const { malformed } = RECORD_CODECS[source.format];
  return { score: (scorer, values) => scoreDecoded(decoder, malformed, scorer, values), encode };
}

/** Scores decoded values. A value that cannot be decoded is rejected; its answer keeps its position. */
async function scoreDecoded(
  decoder: ValueDecoder,
  malformed: ErrorCode,
  scorer: RecordScorer,
  values: readonly (Buffer | null)[],
): Promise<ScoredRecords> {
  const decoded = await Promise.all(values.map((v) => decoder.decode(v)));
  const valid = decoded.flatMap((d) => ('write' in d ? [d.write] : []));
  const { model, answers, tallies } = await scorer.score(valid);
  const { manifest } = model;
  let next = 0;
  return {
    model,
    answers: decoded.map(
      (d): RecordAnswer =>
        'write' in d ? answers[next++]! : rejectedAnswer(manifest, { code: malformed, message: d.fault }),
    ),
    tallies:
      valid.length === values.length ? tallies : [...tallies, undecodable(values.length - valid.length, malformed)],
  };
}

const undecodable = (rows: number, code: ErrorCode): Tally => ({
  rows,
  scored: 0,
  rejected: rows,
  rejectedByCode: { [code]: rows },
  interpreted: 0,
  inexact: 0,
  details: [],
  workMs: 0,
  drift: null,
});
