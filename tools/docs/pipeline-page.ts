// Writes docs/pipelines.md and the JSON Schema for editors from the schemas of pipelines; a test compares them with it.

import { type TSchema, Type } from 'typebox';
import { connectorNamed, endSchemas } from '../../src/connectors/connectors.ts';
import { KafkaSchema, SchemaRegistrySchema } from '../../src/connectors/kafka/kafka-options.ts';
import { pipelineSchema, ScoreSchema } from '../../src/pipeline/pipeline-schema.ts';
import { featureKeys } from '../../src/runs/complete-pipeline.ts';
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
    featureKeys(),
  ).properties;
  return Type.Object(properties);
}

/** The JSON Schema of a pipeline file, as text. */
export function pipelineJsonSchema(): string {
  const any = (schemas: Readonly<Record<string, TSchema>>) => Type.Union(Object.values(schemas));
  return editorSchema('sluice pipeline', pipelineSchema(any(SOURCES), any(SINKS), any(DEAD_LETTERS), featureKeys()));
}

/** The page as Markdown. */
export function pipelinePage(): string {
  return `# Pipelines
A pipeline is a YAML file: a source of applications, how they are scored, a sink for the predictions. The tables are generated from
\`src/pipeline/pipeline-schema.ts\` by \`npm run docs\`; the same as a JSON Schema, for the completion of editors, is
[pipeline.schema.json](pipeline.schema.json).

\`\`\`yaml
# yaml-language-server: $schema=pipeline.schema.json
# Applications of a topic, scored as they come, each exactly once.
model: credit-default@champion
source: { type: kafka, topic: loan-applications, group: scoring }
sink: { type: kafka, topic: loan-predictions }
dead_letter: { type: kafka, topic: loan-applications-rejected }
\`\`\`

\`\`\`sh
npx sluice lint pipelines/*.yaml                            # faults as file:line:column, all at once; is the model there?
npx sluice test pipelines/loan-applications.yaml            # loan-applications.test.yaml beside it: applications → predictions
npx sluice run pipelines/loan-applications.yaml --dry-run   # connects, describes the topics, scores ten records, commits nothing
npx sluice run pipelines/loan-applications.yaml --metrics-port 9464
npx sluice dlq replay pipelines/loan-applications.yaml --code unseen_category
\`\`\`

\`run\` ends with its source (files, standard input, \`until_caught_up\`) or on SIGTERM: what is in hand is finished within \`--stop-ms\`.
A pipeline that waits for its model has nothing to finish and stops at once.
More processes of the same pipeline share the partitions; growing means more of them, up to the number of partitions.

## Topic to topic

Applications are JSON objects, one a record. A prediction is the JSON object of the answer with \`modelId\` and \`modelVersion\` in front and
the columns outside the model echoed (\`passthrough\`, here all by default). It keeps key, headers (and with them the trace context)
and order of its application, and its [partition](#partitions-and-growing-topics) and [timestamp](#timestamps-and-retention) as told below, and
adds the headers \`sluice-model-id\`, \`sluice-model-version\`, \`sluice-model-sha256\`, \`sluice-package-sha256\`,
\`sluice-source-topic\`, \`sluice-source-partition\`, \`sluice-source-offset\`.

Under \`delivery: exactly_once\` predictions, dead letters and the offset are written in one transaction; consumers read with
\`isolation.level=read_committed\`. It holds under kill -9, SIGSTOP beyond the session time, rebalances and restarts of brokers;
\`src/connectors/kafka/partition-lease.ts\` has the protocol, \`npm run chaos\`, \`chaos:silences\` and \`chaos:endings\` try it. A member has one transaction at a
time, for all its partitions, of up to \`transaction_rows\` records. \`commit_interval_ms\` says how long after the beginning of one transaction the
next one may begin, \`score.batch_wait_ms\` how long records may wait for others: with 20 and 20 an answer takes some 25 ms (\`npm run
kafka:latency\`); 100 and 50 take less CPU. Who is killed without an \`instance_id\` may hold up readers for \`transaction_timeout_ms\`.

\`SLUICE_KAFKA_CLIENT=kafkajs\` selects another Kafka client, which has no transactions ([why](decisions/0023-kafkajs-without-transactions.md)).
Pipelines between topics and uploads into topics need \`delivery: at_least_once\` with it, else they end at the start (\`kafka_config\`); \`lint\`
reports it. \`dlq replay\` and \`dlq drop\` need the default client. Members of both clients may be in one group, so a deployment rolls from one to the
other and back.

An application that cannot be scored goes to the dead letters once, with its original bytes, key and headers and
\`sluice-error-code\`, \`-column\`, \`-message\`, \`-topic\`, \`-partition\`, \`-offset\`, \`-timestamp\`, \`-pipeline\` and \`sluice-attempt\`; so does a prediction that is too large for its topic.
After a fix, \`dlq replay\` puts them back, each once; \`dead_letter.retry\` has the pipeline try some of them again by itself ([dead letters](dead-letters.md)). \`fail\` ends the run,
\`report\` writes the rejected application to the sink, in the place of its prediction.

### Rejected applications in the sink

With \`on_invalid: report\` a rejected application can be found again from the sink alone. Its JSON has the model, the passthrough columns
that could be read, and the error:

\`\`\`json
{"modelId":"credit-default","modelVersion":"1","application_id":"A-17","error":{"code":"bad_number","column":"amount","message":"not a number"}}
\`\`\`

A record that is not a JSON object has no passthrough columns. Its position identifies it in every sink:

| sink | position of the source record |
| --- | --- |
| topic | the key, and the headers \`sluice-source-topic\`, \`-partition\`, \`-offset\` |
| files | the member \`record\` of every line, scored or rejected |
| table | the columns \`topic\`, \`partition\`, \`offset\` |

Avro and Protobuf carry the same fields; columns without a field of their own are in \`passthrough\`.

The model is looked up for every micro-batch: a moved alias takes effect within a second, and each prediction names the version it is of.
A model that cannot be loaded, and never was, pauses the pipeline (\`sluice_pipeline_model_unavailable\` 1) until it is there; one that was
loaded goes on when a newer version is damaged (\`sluice_model_stale\` 1).

## Logins, TLS and a schema registry

\`\`\`yaml
# secured.yaml: brokers with TLS and SCRAM, Avro values whose schemas are in a registry with a login of its own.
model: credit-default@champion
source: { type: kafka, topic: loan-applications, group: scoring, format: avro }
sink: { type: kafka, topic: loan-predictions, format: avro }
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

- **Secrets** are never in the file: \`{ env: NAME }\` names a variable of the process, \`{ file: PATH }\` a file whose last line end does not
  count. Paths are those of the machine, relative ones as seen from the folder that \`sluice\` is started in.
- **TLS**: \`tls: true\` trusts the authorities of Node; \`ca_file\` (PEM) trusts those in it instead. The certificate has to carry the address that
  is connected to, which for brokers is the one they advertise; \`server_name\` says another name. Brokers or registries that want a certificate of
  the client get \`certificate_file\` and \`key_file\`. A registry whose address begins with https needs \`tls\` only for what is said there.
- **The address of the registry** is that of its Confluent-compatible interface: often just the host, \`/apis/ccompat/v7\` at Apicurio. It is not
  needed for \`format: json\`.
- **Avro**: each value begins with a zero byte and the four bytes of its schema's id. Fields of the record are the columns of the model by name; a
  union with null stands for a missing value. Predictions get a schema of their own, registered at the start under \`loan-predictions-value\` unless
  \`subject\` or \`register\` say otherwise.
- **Topics** have to be there; Sluice creates none. With as many partitions in the topic of predictions as in that of applications a prediction
  keeps its partition.

Brokers with an authorizer want these permissions for the user; \`run\` says which is missing:

| on | permission |
| --- | --- |
| the source | READ (it implies DESCRIBE) |
| topics of the sink, of dead letters and of retries | WRITE (it implies DESCRIBE); READ too for retries |
| the group, and that of retries | READ |
| transactional ids that begin with \`GROUP-\` (a prefixed grant): \`exactly_once\` only | WRITE |
| the cluster: \`at_least_once\` with brokers before 2.8 only | IDEMPOTENT_WRITE |
| all of the topics, so that limits of their records are read instead of tried | DESCRIBE_CONFIGS, if you like |

### Tokens instead of passwords

\`mechanism: oauthbearer\` logs in with a token (SASL OAUTHBEARER), either by the client credentials grant of a token endpoint

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

or with one that somebody else renews, such as the service account token that Kubernetes projects into a pod, which is read again for every login:
\`token: { file: /var/run/secrets/kafka/token }\`. Tokens of an endpoint are kept in memory, shared by all connections of the
process, and renewed after 80 % of their life; while the endpoint is away the old one serves until it ends, and then the pipeline waits
(\`kafka_token_unavailable\`) and tries again. An endpoint that refuses the client, and brokers that refuse the token, end the run at its start
(\`kafka_authentication\`); brokers that refuse tokens of a pipeline they knew are asked again for a minute, because they learn of an issuer's new
key a moment late.

Where brokers end logins (\`connections.max.reauth.ms\`, or a token that expires), each is renewed after 80 % of its time, with passwords as with
tokens: nothing is lost, given up or logged. The default client makes a new connection for it first. kafkajs logs in again on the connection
it has, so that a refusal costs that connection.

${TOPICS}## Files

A path with \`*\` takes all files that match, each into an output of its own (\`{name}\`). Formats and compression go by the name of the
file; an ending that stands for no known format is a fault of the pipeline file unless \`format\` says what it is.
Outputs have their final name only when they are whole, and together with the list of rejected rows (\`dead_letter.path\`) and what else is of the
same run. With \`{name}\` in the path of the list, or without a list, each input becomes final by itself, in the moment it is done. One list for all
makes the outputs of all inputs final together with it, at the end: a run that is killed before leaves nothing of the night, so give long runs a
list with \`{name}\`. The list is there in any case, with a header alone if no row was rejected. An input that fails is named in the end, and
nothing of it is visible; the others are scored and final, and the exit code is 1. So does one of which no row could be scored
(\`nothing_scored\`, \`allow_empty\`): it replaces nothing. From a file into a topic a record is written for every row; that is
idempotent, not a transaction: a run that failed half way may be seen twice, so give rows a \`key\`.

From a topic into files, a file holds what lies between two committed offsets of one partition and is named by its first
offset (\`{partition}\`, \`{offset}\`). The offset is committed when the file is there; after a crash the file begins anew under the same name, so
in one folder nothing is lost and nothing is there twice.
Every line names its record: \`"record":{"topic":"loan-applications","partition":0,"offset":17,"key":"A-17"}\`. A key that is not UTF-8 is \`key_base64\`.

## Uploads

\`source: { type: upload }\` makes the pipeline an operation of \`sluice serve\`: \`POST /api/v1/pipelines/NAME\`, after the name of its file. A key that
may not use its model gets 404, as for a pipeline that does not exist. The
service is told which files it serves by \`pipelines\` of its [configuration](serve-config.md). The answer is
201 with a job (\`state\`, counts, \`target\`); the upload is on the disk by then, and is scored whatever becomes of the client, the service or a
broker. Predictions go to a topic, or to a file of the upload's own: \`{name}\` in \`sink.path\` and \`dead_letter.path\` (the list of
rejected rows) is the id of its job.

\`delivery: exactly_once\`, the default, holds per \`Idempotency-Key\`: an upload that is sent again with the same key is the same job. A file
appears whole, once. Into a topic lines go in transactions of \`transaction_rows\`, each with the count of lines that are written by then (an
offset of the group \`sluice-upload-NAME-JOB\`, which the brokers must let the service use, like the transactional id of the same name), so
that an attempt that was cut off goes on behind the last one: consumers read with \`isolation.level=read_committed\`. What an upload wrote before
a fault in its middle stays in the topic. \`at_least_once\` writes without transactions: after a crash lines may be there twice.

## Metrics

\`--metrics-port\` serves \`/metrics\`, \`/metrics/columns\`, \`/livez\` and \`/readyz\` ([monitoring.md](monitoring.md)). Worth an alert: \`sluice_kafka_lag_records\` that grows, \`sluice_kafka_paused\`,
\`sluice_pipeline_model_unavailable\`, \`sluice_model_stale\`, \`rate(sluice_rows_rejected_total)\`, \`rate(sluice_kafka_aborts_total)\`.

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
