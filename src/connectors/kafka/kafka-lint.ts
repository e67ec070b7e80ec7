// Checks the topics, the broker connection and the schema registry of a pipeline for contradictory settings.
import type { LintedPipeline, Say } from '../contract/connector.ts';
import { isBrokerAddress } from './connection-settings.ts';
import type { KafkaConfig, KafkaDeadLetter, KafkaSink, KafkaSource, SchemaRegistryConfig } from './kafka-options.ts';
import { topicPattern } from './topics.ts';

interface TopicPipeline extends LintedPipeline {
  readonly kafka: KafkaConfig;
  readonly schema_registry?: SchemaRegistryConfig | undefined;
}

/** The Kafka source, sink and dead letter topic of a pipeline; null: it is not a Kafka topic. */
interface Topics {
  source: KafkaSource | null;
  sink: KafkaSink | null;
  letters: KafkaDeadLetter | null;
}

export function lintTopics(pipeline: TopicPipeline, say: Say): void {
  const { source, sink, dead_letter: letters } = pipeline;
  const topics: Topics = {
    source: source.type === 'kafka' ? (source as KafkaSource) : null,
    sink: sink.type === 'kafka' ? (sink as KafkaSink) : null,
    letters: letters?.type === 'kafka' ? (letters as KafkaDeadLetter) : null,
  };
  for (const end of [topics.source, topics.sink]) {
    if (end && end.format !== 'json' && !pipeline.schema_registry) {
      say('schema_registry', `format: ${end.format} needs a schema_registry`);
    }
  }
  if (topics.source) lintSource(topics.source, topics, say);
  if (topics.sink) lintSink(topics.sink, topics, pipeline, say);
  if (topics.letters) lintLetters(topics.letters, topics, pipeline, say);
  lintBrokers(pipeline.kafka, say);
  lintCertificate('kafka.tls', pipeline.kafka.tls, say);
  lintCertificate('schema_registry.tls', pipeline.schema_registry?.tls, say);
  lintLogin(pipeline.kafka, say);
}

function lintBrokers({ brokers = [] }: KafkaConfig, say: Say): void {
  for (const [i, address] of brokers.entries()) {
    if (!isBrokerAddress(address)) {
      say(
        `kafka.brokers.${i}`,
        `kafka.brokers.${i}: must be host:port of one broker, such as kafka-1.example.com:9093`,
      );
    }
  }
}

function lintCertificate(path: string, tls: KafkaConfig['tls'], say: Say): void {
  if (typeof tls !== 'object') return;
  const { certificate_file, key_file, key_passphrase } = tls;
  if (certificate_file !== undefined && key_file === undefined) say(path, `${path}: certificate_file needs key_file`);
  if (key_file !== undefined && certificate_file === undefined) say(path, `${path}: key_file needs certificate_file`);
  if (key_passphrase !== undefined && key_file === undefined) say(path, `${path}: key_passphrase needs key_file`);
}

/** Describes risks of a valid pipeline. */
export function topicWarnings({ source, sink, kafka }: TopicPipeline): string[] {
  const partition = source.type === 'kafka' && sink.type === 'kafka' && (sink as KafkaSink).partition === undefined;
  const login = loginWarning(kafka);
  return [
    ...(partition
      ? [
          'sink.partition is not set: the pipeline starts only while source and sink have the same number of partitions; add partition: source or partition: key to the sink',
        ]
      : []),
    ...(login === null ? [] : [login]),
  ];
}

/**
 * The risk of a login over a connection without TLS; null: there is none. SCRAM is safe, because it never sends the
 * password.
 */
function loginWarning({ sasl, tls }: KafkaConfig): string | null {
  if (!sasl || (tls !== undefined && tls !== false)) return null;
  if (sasl.mechanism === 'plain') return 'kafka.sasl: mechanism: plain sends the password unencrypted; set kafka.tls';
  return sasl.mechanism === 'oauthbearer' ? 'kafka.sasl: the token is sent unencrypted; set kafka.tls' : null;
}

function lintSource(source: KafkaSource, { sink, letters }: Topics, say: Say): void {
  const { topic, topics, topic_pattern: pattern } = source;
  if (source.reader_schema && source.format !== 'avro') say('source', 'reader_schema: requires format: avro');
  if (source.tombstones === 'forward' && sink === null) {
    say('source', 'tombstones: files and tables cannot contain records without a value');
  }
  if ([topic, topics, pattern].filter((one) => one !== undefined).length !== 1) {
    say('source', 'source: needs one of topic, topics and topic_pattern');
  }
  if (pattern !== undefined && !isRegExp(pattern))
    say('source.topic_pattern', 'topic_pattern: is not a regular expression');
  if (topics && new Set(topics).size < topics.length) say('source.topics', 'topics: a topic occurs twice');
  if (topic === undefined && sink === null)
    say('source', 'topics: only a single topic can be written to files or a table');
  if (topic === undefined && letters?.retry) say('dead_letter', 'retry: needs a single topic as the source');
  const read = topic === undefined ? (topics ?? []) : [topic];
  if (sink && read.includes(sink.topic)) say('sink', 'source and sink are the same topic: use different topics');
  if (sink?.routes?.some((r) => read.includes(r.topic))) say('sink', 'routes: a topic is also the source');
  if (letters && read.includes(letters.topic)) {
    say('dead_letter', 'dead_letter: the topic is also read as input: use another topic');
  }
  if (letters && sink && [sink.topic, ...(sink.routes ?? []).map((r) => r.topic)].includes(letters.topic)) {
    say('dead_letter', 'dead_letter: the topic is also that of the sink: use another topic');
  }
}

function isRegExp(pattern: string): boolean {
  try {
    topicPattern(pattern);
    return true;
  } catch {
    return false;
  }
}

function lintSink({ key, partition, routes }: KafkaSink, { source }: Topics, pipeline: TopicPipeline, say: Say): void {
  for (const total of ['expect', 'control', 'trailer'] as const) {
    if (total in pipeline.source)
      say(
        `source.${total}`,
        `source.${total}: is not supported if the sink is a topic, because its predictions cannot be withdrawn`,
      );
  }
  if (source && key !== undefined)
    say(
      'sink',
      'key: is not supported if the source is a topic, because predictions keep the key of their application',
    );
  const { passthrough } = pipeline.score;
  if (!source && key !== undefined && Array.isArray(passthrough) && !passthrough.includes(key)) {
    say('sink.key', `key: ${key} is not in score.passthrough`);
  }
  if (!source && partition === 'source') say('sink', 'partition: source needs a topic as the source');
  if (!routes) return;
  if (!source) say('sink', 'routes: need a topic as the source');
  const decisions = routes.map((r) => r.decision);
  const twice = decisions.find((d, i) => decisions.indexOf(d) !== i);
  if (twice !== undefined) say('sink', `routes: the decision ${twice} is listed twice`);
}

function lintLetters(letters: KafkaDeadLetter, { source, sink }: Topics, pipeline: TopicPipeline, say: Say): void {
  if (pipeline.reads === 'requests') say('dead_letter', 'dead letters of uploads must go to files');
  else if (!source) say('dead_letter', 'dead letters of files must go to a file');
  else if (pipeline.writes === 'rows') {
    say('dead_letter', 'dead letters must go to a table if the sink is a table, because one transaction writes both');
  }
  const { retry } = letters;
  if (!retry) return;
  if (!source || !sink) {
    say('dead_letter.retry', 'retry: needs a topic as the source and as the sink');
    return;
  }
  if (pipeline.on_invalid !== 'dead_letter') say('dead_letter.retry', 'retry: needs on_invalid: dead_letter');
  const others = [source.topic, sink.topic, ...(sink.routes ?? []).map((r) => r.topic), letters.topic];
  if (others.includes(retry.topic))
    say('dead_letter.retry.topic', 'retry: the retry topic must differ from all other topics of the pipeline');
  if (retry.group === source.group)
    say('dead_letter.retry.group', 'retry: the retry group must differ from the group of the source');
}

const PASSWORD_KEYS = ['username', 'password'] as const;
const TOKEN_KEYS = ['token', 'token_endpoint', 'extensions'] as const;

function lintLogin({ sasl }: KafkaConfig, say: Say): void {
  if (!sasl) return;
  const bearer = sasl.mechanism === 'oauthbearer';
  for (const key of bearer ? PASSWORD_KEYS : TOKEN_KEYS) {
    if (sasl[key] !== undefined)
      say(`kafka.sasl.${key}`, `kafka.sasl.${key}: is not supported with mechanism: ${sasl.mechanism}`);
  }
  if (!bearer) {
    for (const key of PASSWORD_KEYS) {
      if (sasl[key] === undefined) say('kafka.sasl', `kafka.sasl: mechanism: ${sasl.mechanism} needs ${key}`);
    }
    return;
  }
  if ((sasl.token === undefined) === (sasl.token_endpoint === undefined)) {
    say('kafka.sasl', 'kafka.sasl: mechanism: oauthbearer needs one of token_endpoint and token');
  }
  if (sasl.extensions?.auth !== undefined) {
    say('kafka.sasl.extensions', 'kafka.sasl.extensions: the extension auth is reserved for the token');
  }
  if (sasl.token_endpoint) lintEndpoint(sasl.token_endpoint.url, say);
}

/** Checks that the endpoint uses TLS, because the client secret may be sent only over TLS (RFC 6749, 3.2). */
function lintEndpoint(url: string, say: Say): void {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  const local = parsed !== null && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(parsed.hostname);
  if (parsed?.protocol === 'https:' || (parsed?.protocol === 'http:' && local)) return;
  say('kafka.sasl.token_endpoint.url', 'kafka.sasl.token_endpoint.url: must be an https address');
}
