// Writes docs/pipelines.md from the schemas of pipelines; a test compares it with them.
import {
  DEAD_LETTERS,
  KafkaSchema,
  pipelineSchema,
  ScoreSchema,
  SINKS,
  SOURCES,
} from '../../src/config/pipeline-config.ts';
import { schemaTable } from './schema-table.ts';

/** The page as Markdown. */
export function pipelinePage(): string {
  const whole = pipelineSchema(SOURCES.kafka, SINKS.kafka, DEAD_LETTERS.kafka);
  const { model, on_invalid, delivery, transaction_rows, transaction_timeout_ms } = whole.properties;
  const top = { ...whole, properties: { model, on_invalid, delivery, transaction_rows, transaction_timeout_ms } };
  const part = (title: string, schemas: Record<string, object>) =>
    Object.entries(schemas).map(([type, s]) => `### ${title}: type ${type}\n\n${schemaTable(s as never)}`);
  return `# Pipelines
A pipeline is a YAML file: a source of applications, how they are scored, a sink for the predictions. The tables are generated from
\`src/config/pipeline-config.ts\` by \`npm run docs\`.

\`\`\`sh
npx sluice lint pipelines/*.yaml                            # faults as file:line:column, all at once; is the model there?
npx sluice test pipelines/loan-applications.yaml            # loan-applications.test.yaml beside it: applications → predictions
npx sluice run pipelines/loan-applications.yaml --dry-run   # connects, describes the topics, scores ten records, commits nothing
npx sluice run pipelines/loan-applications.yaml --metrics-port 9464
npx sluice dlq replay pipelines/loan-applications.yaml --code unseen_category
\`\`\`

\`run\` ends with its source (files, standard input, \`until_caught_up\`) or on SIGTERM: what is in hand is finished within \`--stop-ms\`.
More processes of the same pipeline share the partitions; growing means more of them, up to the number of partitions.

## Topic to topic

Applications are JSON objects, one a record. A prediction is the JSON object of the answer with \`modelId\` and \`modelVersion\` in front and
the columns outside the model echoed (\`passthrough\`, here all by default). It keeps key, headers (and with them the trace context),
timestamp, partition and order of its application and adds the headers \`sluice-model-id\`, \`sluice-model-version\`, \`sluice-model-sha256\`,
\`sluice-source-topic\`, \`sluice-source-partition\`, \`sluice-source-offset\`.

Under \`delivery: exactly_once\` predictions, dead letters and the offset are written in one transaction; consumers read with
\`isolation.level=read_committed\`. It holds under kill -9, SIGSTOP beyond the session time, rebalances and restarts of brokers;
\`src/kafka/partition-lease.ts\` has the protocol, \`npm run chaos\` tries it. A transaction has about 30 ms of fixed cost: under load it holds up to
\`transaction_rows\`.

An application that cannot be scored goes to the dead letters once, with its original bytes, key and headers and
\`sluice-error-code\`, \`-column\`, \`-message\`, \`-topic\`, \`-partition\`, \`-offset\`; so does a prediction that is too large for its topic.
After a fix, \`dlq replay\` puts them back, each once. \`on_invalid: report\` writes the error as the prediction instead, \`fail\` ends the run.

The model is looked up for every micro-batch: a moved alias takes effect within a second, and each prediction names the version it is of.
A model that cannot be loaded, and never was, pauses the pipeline (\`sluice_pipeline_model_unavailable\` 1) until it is there; one that was
loaded goes on when a newer version is damaged (\`sluice_model_stale\` 1).

## Files

A path with \`*\` takes all files that fit, each into an output of its own (\`{name}\`). Formats and compression go by the name of the file.
Outputs have their final name only when they are whole. From a file into a topic a record is written for every row; that is
idempotent, not a transaction: a run that failed half way may be seen twice, so give rows a \`key\`.

From a topic into files, a file holds what lies between two committed offsets of one partition and is named by its first
offset (\`{partition}\`, \`{offset}\`). The offset is committed when the file is there; after a crash the file begins anew under the same name, so
in one folder nothing is lost and nothing is there twice.

## Metrics

\`--metrics-port\` serves \`/metrics\`, \`/livez\` and \`/readyz\`. Worth an alert: \`sluice_kafka_lag_records\` that grows, \`sluice_kafka_paused\`,
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

${schemaTable(top as never)}

${[...part('source', SOURCES), ...part('sink', SINKS), ...part('dead_letter', DEAD_LETTERS)].join('\n\n')}

### score

${schemaTable(ScoreSchema)}

### kafka

${schemaTable(KafkaSchema)}
`;
}
