// Writes docs/pipelines.md and the JSON Schema for editors from the schemas of pipelines; a test compares them with it.

import { type TSchema, Type } from 'typebox';
import { connectorNamed, endSchemas } from '../../src/connectors/connectors.ts';
import { KafkaSchema, SchemaRegistrySchema } from '../../src/connectors/kafka/kafka-options.ts';
import { pipelineSchema, ScoreSchema } from '../../src/pipeline/pipeline-schema.ts';
import { FEATURE_KEYS } from '../../src/runs/complete-pipeline.ts';
import { editorSchema } from './editor-schema.ts';
import { TOPICS } from './pipeline-topics.ts';
import { schemaTable } from './schema-table.ts';

const { sources: SOURCES, sinks: SINKS, deadLetters: DEAD_LETTERS } = endSchemas();

const byType = (end: string, schemas: Readonly<Record<string, TSchema>>) =>
  Object.entries(schemas).map(([type, schema]) => [`${end}: type ${type}`, schema] as const);

/** Parts of a pipeline file with a table of their own. */
export const PARTS: readonly (readonly [title: string, schema: TSchema])[] = [
  ...byType('source', SOURCES),
  ...byType('sink', SINKS),
  ...byType('dead_letter', DEAD_LETTERS),
  ['score', ScoreSchema],
  ['kafka', KafkaSchema],
  ['schema_registry', SchemaRegistrySchema],
];

/** The link to the page of a connector; empty: this page is its page, or the part is no end. */
function pageOf(title: string): string {
  const page = connectorNamed(title.split(' type ')[1])?.page ?? 'pipelines.md';
  return page === 'pipelines.md' ? '' : `See [${page}](${page}).\n\n`;
}

/** Keys of the outermost mapping that have no table of their own. */
export function outermost(): TSchema {
  const { source, score, sink, dead_letter, kafka, schema_registry, ...properties } = pipelineSchema(
    SOURCES.kafka,
    SINKS.kafka,
    DEAD_LETTERS.kafka,
    FEATURE_KEYS,
  ).properties;
  return Type.Object(properties);
}

/** The JSON Schema of a pipeline file, as text. */
export function pipelineJsonSchema(): string {
  const any = (schemas: Readonly<Record<string, TSchema>>) => Type.Union(Object.values(schemas));
  return editorSchema('sluice pipeline', pipelineSchema(any(SOURCES), any(SINKS), any(DEAD_LETTERS), FEATURE_KEYS));
}

/** The page as Markdown. */
export function pipelinePage(): string {
  return `# Pipelines

After reading this page you can write, check, test and run a pipeline between topics, files, tables and uploads.

\`\`\`yaml
# yaml-language-server: $schema=../docs/pipeline.schema.json
# Applications of a topic, scored as they come, each exactly once.
model: credit-default@champion
source: { type: kafka, topic: loan-applications, group: scoring }
sink: { type: kafka, topic: loan-predictions, partition: source }
dead_letter: { type: kafka, topic: loan-applications-rejected }
\`\`\`

\`\`\`sh
npx sluice lint pipelines/*.yaml                            # all errors as file:line:column; also checks that the model exists; needs no broker
npx sluice test pipelines/loan-applications.yaml            # runs the cases of loan-applications.test.yaml
npx sluice run pipelines/loan-applications.yaml --dry-run   # connects, describes the topics, scores ten records, commits nothing
npx sluice run pipelines/loan-applications.yaml --metrics-port 9464
npx sluice dlq count pipelines/loan-applications.yaml       # rejected applications by error code
npx sluice dlq replay pipelines/loan-applications.yaml --code unseen_category
\`\`\`

A pipeline is a YAML file with a source of applications, settings for scoring, and a sink for the predictions. All keys
are in the [reference](#reference), which \`npm run docs\` generates from \`src/pipeline/pipeline-schema.ts\`. For
completion in editors use the JSON Schema [pipeline.schema.json](pipeline.schema.json): \`$schema\` in the first line is
its path, relative to the pipeline file.

\`run\` ends at the end of its source (files, standard input, \`until_caught_up\`) or on SIGTERM. On SIGTERM, work in
progress is finished within \`--stop-ms\`. A pipeline that waits for its model stops at once. Several processes of the
same pipeline share the partitions of its topic. To scale, start more processes, up to the number of partitions.

## Topic to topic

Each record is a JSON object with one application. A prediction is the same JSON object as in an HTTP response, preceded
by \`modelId\` and \`modelVersion\`. It also has the columns outside the model that \`passthrough\` lists (from a topic, all
by default). A prediction keeps the key, the headers (including the trace context) and the order of its application.
Later sections describe its [partition](#partitions-and-growing-topics) and its [timestamp](#timestamps-and-retention).
Headers of the same name keep their order; the order of different names can change. A null value of a header stays null.
These headers are added: \`sluice-model-id\`, \`sluice-model-version\`, \`sluice-model-sha256\`, \`sluice-package-sha256\`,
\`sluice-source-topic\`, \`sluice-source-partition\`, \`sluice-source-offset\`.

The model is resolved for every micro-batch: a moved alias takes effect within a second, and each prediction contains
the version that was used. If no version of the model could be loaded yet, the pipeline pauses until one can be loaded
(\`sluice_pipeline_model_unavailable\` 1). If a newer version is damaged, the loaded version stays in use
(\`sluice_model_stale\` 1).

### Delivery

With \`delivery: exactly_once\`, predictions, dead letters and the offset are written in one transaction. Consumers must
read with \`isolation.level=read_committed\`. Delivery stays exactly once under kill -9, SIGSTOP beyond the session
timeout, rebalances and restarts of brokers. The protocol is described in \`src/connectors/kafka/partition-lease.ts\`;
\`npm run chaos\`, \`chaos:silences\` and \`chaos:endings\` test it.

A member of the consumer group has one transaction at a time, for all its partitions, of up to \`transaction_rows\`
records. \`commit_interval_ms\` is the minimum time between the starts of two transactions. \`score.batch_wait_ms\` is the
maximum time that a record waits until its micro-batch is full. With both set to 20, a prediction takes some 25 ms
(\`npm run kafka:latency\`). A commit interval of 100 and a batch wait of 50 need less CPU. If a member without an
\`instance_id\` is killed, readers can be delayed for \`transaction_timeout_ms\`.

\`SLUICE_KAFKA_CLIENT=kafkajs\` selects another Kafka client, which has no transactions
([why](decisions/0023-kafkajs-without-transactions.md)). With it, pipelines between topics and uploads into topics need
\`delivery: at_least_once\`; otherwise they end at the start (\`kafka_config\`), and \`lint\` reports it. \`dlq replay\` and
\`dlq drop\` need the default client. Members with different clients can share a group, so a deployment can be rolled from
one client to the other and back.

### Rejected applications

\`on_invalid\` decides what happens to an application that cannot be scored:

| \`on_invalid\` | behaviour |
| --- | --- |
| \`dead_letter\` | it is written to the dead letters once, with its original bytes, key and headers. These headers are added: \`sluice-error-code\`, \`-column\`, \`-message\`, \`-topic\`, \`-partition\`, \`-offset\`, \`-timestamp\`, \`-pipeline\` and \`sluice-attempt\`. An application whose prediction is too large for its topic becomes a dead letter as well |
| \`report\` | its error is written to the sink instead of a prediction |
| \`fail\` | the run ends |

After you have fixed the cause, \`dlq replay\` sends dead letters through the pipeline again, each of them once.
\`dead_letter.retry\` retries some of them automatically ([dead letters](dead-letters.md)).

With \`on_invalid: report\`, the sink alone identifies a rejected application. Its JSON has the model, the readable
passthrough columns, and the error:

\`\`\`json
{"modelId":"credit-default","modelVersion":"1","application_id":"A-17","error":{"code":"bad_number","column":"amount","message":"not a number"}}
\`\`\`

A record that is not a JSON object has no passthrough columns. In every sink, its position in the source topic
identifies it:

| sink | position of the source record |
| --- | --- |
| topic | the key, and the headers \`sluice-source-topic\`, \`-partition\`, \`-offset\` |
| files | the member \`record\` of every line, scored or rejected |
| table | the columns \`topic\`, \`partition\`, \`offset\` |

Predictions in Avro and Protobuf have the same fields; passthrough columns without a field of their own are in the field
\`passthrough\`. In Protobuf, two listed columns cannot share a JSON name, as \`a_b\` and \`aB\` do.

## Authentication, TLS and schema registry

\`\`\`yaml
# tls.yaml: brokers with TLS and SCRAM, dead letters in a topic.
model: credit-default@champion
source: { type: kafka, topic: loan-applications, group: scoring }
sink: { type: kafka, topic: loan-predictions, partition: source }
dead_letter: { type: kafka, topic: loan-applications-rejected }
kafka:
  brokers: [kafka-1.example.com:9093, kafka-2.example.com:9093]
  tls: { ca_file: /etc/kafka/ca.pem }
  sasl: { mechanism: scram-sha-512, username: scoring, password: { env: KAFKA_PASSWORD } }
\`\`\`

\`\`\`sh
sluice lint tls.yaml                              # needs no broker, password or certificate
KAFKA_PASSWORD=… sluice run tls.yaml --dry-run    # reads both, logs in, checks topics and permissions
\`\`\`

Avro and Protobuf values need a schema registry, which can have its own login:

\`\`\`yaml
# secured.yaml: the same with Avro values and a schema registry.
model: credit-default@champion
source: { type: kafka, topic: loan-applications, group: scoring, format: avro }
sink: { type: kafka, topic: loan-predictions, format: avro, partition: source }
dead_letter: { type: kafka, topic: loan-applications-rejected }
kafka:
  brokers: [kafka-1.example.com:9093, kafka-2.example.com:9093]
  tls: { ca_file: /etc/kafka/ca.pem }
  sasl: { mechanism: scram-sha-512, username: scoring, password: { env: KAFKA_PASSWORD } }
schema_registry:
  url: https://registry.example.com/apis/ccompat/v7
  username: scoring
  password: { file: /etc/registry/password }
  tls: { ca_file: /etc/registry/ca.pem }
\`\`\`

- **Secrets** are never in the file: \`{ env: NAME }\` names an environment variable, and \`{ file: PATH }\` names a file. A
  line end at the end of the file is ignored. Relative paths start at the working directory of \`sluice\`.
- **TLS**: \`tls: true\` trusts the authorities of Node.js; \`ca_file\` (PEM) replaces them. The certificate must contain
  the address of the connection; for brokers, this is the advertised address. If the certificate has another name, set
  \`server_name\`. \`certificate_file\` and \`key_file\` are for brokers or registries that require a client certificate. A
  registry with an https address uses TLS anyway; it needs the key \`tls\` only for the settings above.
- **The address of the schema registry** is that of its Confluent-compatible interface. Often this is just the host; for
  Apicurio the path is \`/apis/ccompat/v7\`. \`format: json\` needs no registry.
- **Avro**: each value begins with a zero byte and the four bytes of its schema id. Fields of the record are matched to
  model columns by name; a union with null accepts a missing value. The schema of predictions is registered at the start
  as \`loan-predictions-value\`, unless \`subject\` or \`register\` is set.
- **Protobuf**: a field of proto3 without \`optional\` has no presence, so an absent number is scored as 0 and an absent
  text as an empty one. Fields with presence (\`optional\`, proto2, editions, wrappers) may be missing. A default that
  the schema states applies. If it is bytes, an integer beyond 2^53 or a text with escapes, records without the field are
  rejected.
- **Topics** must exist, because Sluice creates none. A prediction keeps its partition if both topics have the same
  number of partitions.

Brokers with an authorizer must grant the user these permissions; \`run\` reports missing ones:

| on | permission |
| --- | --- |
| the source | READ (it implies DESCRIBE) |
| topics of the sink, of dead letters and of retries | WRITE (it implies DESCRIBE); for retries also READ |
| the group of the pipeline, and the group of retries | READ |
| transactional ids that begin with \`GROUP-\` (a prefixed grant): only for \`exactly_once\` | WRITE |
| the cluster: only for \`at_least_once\` with brokers before 2.8 | IDEMPOTENT_WRITE |
| all topics, so that Sluice can read their limits on record sizes | DESCRIBE_CONFIGS, optional |

### Tokens instead of passwords

\`mechanism: oauthbearer\` authenticates with a token (SASL OAUTHBEARER). The token can come from the client credentials
grant of a token endpoint:

\`\`\`yaml
kafka:
  brokers: [kafka-1.example.com:9093]
  tls: true
  sasl:
    mechanism: oauthbearer
    token_endpoint:
      url: https://issuer.example.com/oauth2/token
      client_id: scoring
      client_secret: { env: KAFKA_CLIENT_SECRET }
      scope: kafka
    extensions: { logicalCluster: lkc-1234, identityPoolId: pool-5678 }
\`\`\`

It can also come from a file that another program renews, such as the service account token that Kubernetes projects
into a pod: \`token: { file: /var/run/secrets/kafka/token }\`. The file is read again for every login.

Tokens of an endpoint are kept in memory, shared by all connections of the process, and renewed after 80 % of their
lifetime. While the endpoint is unreachable, the old token is used until it expires. After that, the pipeline waits
(\`kafka_token_unavailable\`) and retries.

If the endpoint rejects the client, or brokers reject the token, the run ends at its start (\`kafka_authentication\`). If
brokers reject tokens of a running pipeline, the pipeline retries for a minute, because brokers may read an issuer's new
key with a delay.

If brokers limit the duration of logins (\`connections.max.reauth.ms\`, or an expiring token), each login is renewed after
80 % of this duration, with passwords and tokens alike. A renewal loses no record, aborts no transaction and is not
logged. The default client opens a new connection before it closes the old one. kafkajs authenticates again on its
existing connection, so a rejection closes that connection.

${TOPICS}## Files

A path with \`*\` matches several files; each has its own output (\`{name}\`). The file name decides format and compression.
An unknown extension is an error in the pipeline file unless \`format\` is set.

Outputs get their final name only when they are complete, together with the rejects file (\`dead_letter.path\`) and the
other files of the run:

- **Without a rejects file, or with \`{name}\` in its path**, the output of each input is published as soon as the input
  is scored.
- **With one rejects file for all inputs**, all outputs are published together with it at the end. If the run is killed
  before the end, nothing is published. For long runs use a rejects file with \`{name}\`.

If \`dead_letter.path\` is set, the rejects file is always written; it contains only a header if no row was rejected. If
an input fails, its output is not published, and the message at the end names it. The other inputs are scored and
published, and the exit code is 1. An input in which every row was rejected fails in the same way (\`nothing_scored\`) and
replaces no existing output, unless \`allow_empty\` is set.

**From a file into a topic**, one record is written for every row. The producer is idempotent, but the run is not one
transaction. If a run fails halfway and is repeated, some records are written twice. Set \`key\`, so that consumers can
recognise duplicates. The column must be passed through; if the input does not have it, the run fails (\`kafka_config\`)
and writes nothing.

**From a topic into files**, a file contains the predictions for the records between two committed offsets of one
partition. Its name contains the partition and the first offset (\`{partition}\`, \`{offset}\`). The end offset is committed
after the file is published. After a crash or a rebalance, the file is written again under the same name, so the folder
contains every record exactly once. Dead letters are written when their file is published; a crash at that moment can
repeat them. If the topic is deleted and created again, its offsets begin at 0 again, and new files replace earlier ones
with the same name. Change \`sink.path\` before you create a topic again.

Every line identifies its record: \`"record":{"topic":"loan-applications","partition":0,"offset":17,"key":"A-17"}\`. A
record key that is not UTF-8 is written in base64 as \`key_base64\`.

## Uploads

\`source: { type: upload }\` makes the pipeline an operation of \`sluice serve\`: \`POST /api/v1/pipelines/NAME\`, with the
name of its file. \`pipelines\` of the [configuration](serve-config.md) lists the files. A request whose API key may not
use the pipeline's model gets 404, as if the pipeline did not exist.

The response is 201 with a job (\`state\`, counts, \`target\`). At that time the upload is on disk. It is scored even if the
client disconnects, or if the service or a broker fails temporarily. Predictions go to a topic, or to a separate file
for each upload: \`{name}\` in \`sink.path\` and \`dead_letter.path\` (the rejects file) is the id of its job.

\`delivery: exactly_once\`, the default, applies per \`Idempotency-Key\`: an upload that is sent again with the same
\`Idempotency-Key\` returns the same job. An output file is published once, when it is complete.

If the sink is a topic, predictions are written in transactions of \`transaction_rows\` records. Each transaction also
stores the number of predictions written so far, as an offset of the group \`sluice-upload-NAME-JOB\`. An interrupted job
is therefore resumed after its last transaction. The offset also stores the package hash and the settings of the
pipeline. If one of them has changed, the job fails (\`checkpoint_mismatch\`) and writes nothing more: one upload never has
predictions of two packages. Like the [predictions of a topic](#topic-to-topic), each record names its model in
\`modelId\`, \`modelVersion\` and headers. No column can be passed through under these two names. Consumers must read with
\`isolation.level=read_committed\`. The brokers must grant the service this group and the transactional id of the same
name. If an upload fails in the middle, its earlier records stay in the topic.

\`at_least_once\` writes without transactions: after a crash, predictions may be written twice.

## Metrics

\`--metrics-port\` serves \`/metrics\`, \`/metrics/columns\`, \`/livez\` and \`/readyz\` ([monitoring.md](monitoring.md)), and the
state of the pipeline as JSON at \`/pipelines\` ([console.md](console.md#state-of-the-pipelines)). These metrics are
useful for alerts: a growing \`sluice_kafka_lag_records\`, \`sluice_kafka_paused\`, \`sluice_pipeline_model_unavailable\`,
\`sluice_model_stale\`, \`rate(sluice_rows_rejected_total)\`, \`rate(sluice_kafka_aborts_total)\`.

## Tests

\`\`\`yaml
# loan-applications.test.yaml
cases:
  - name: a regular employee is approved
    input: { amount: 25000, income: 42000, … }
    expect: { decision: approve, probability: 0.9312 }
    tolerance: 0.001
  - input: { amount: many, … }
    expect: { error: { code: bad_number, column: amount } }
\`\`\`

## Reference

${schemaTable(outermost())}

${PARTS.map(([title, schema]) => `### ${title}\n\n${pageOf(title)}${schemaTable(schema)}`).join('\n\n')}
`;
}
