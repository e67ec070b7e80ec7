// Prose of docs/pipelines.md about topics: partitions, several topics, timestamps.

export const TOPICS = `### Partitions and growing topics

\`partition\` in the sink selects the partition of a prediction, in the main topic and in the topics of \`routes\`. The
columns describe the start of a run, and what happens when partitions are added to the input or an output topic:

| \`partition\` | a prediction goes to | at the start | partitions are added to the input | partitions are added to an output |
| --- | --- | --- | --- | --- |
| \`source\` | the partition of its application | rejected (\`kafka_partitions_differ\`) if an output has fewer partitions than the input | records from a partition that an output lacks wait for 10 minutes, which is logged; then the run ends with \`kafka_partitions_differ\`. Other partitions continue | nothing moves |
| \`key\` | the partition of its key, as Java's producer chooses it (murmur2) | any numbers of partitions are accepted | nothing moves | keys move to other partitions, as with every producer that partitions by key; this is logged |
| not set | the partition of its application | rejected if the numbers of partitions differ | as with \`source\` | as with \`source\`, and the log recommends \`partition: source\`, because the next start is rejected while the numbers differ |

No key therefore changes its partition without a log message. If \`partition\` is not set, Sluice does not derive it from
the numbers of partitions. Otherwise a run that is restarted after a topic has grown could choose another value. Add
partitions to the outputs first and then to the input, so that nothing waits. With \`key\`, all records without a key from
one input partition go to the same output partition.

The order of each input partition is preserved: in every output partition, its predictions are in the order of its
applications. When partitions are added to an input, its producers send some keys to other partitions. Earlier records
of a key in the old partition and later records in the new partition are then scored concurrently. Partitions added
during a run are read from their beginning, regardless of \`start_at\`.

Dead letters go to the partition of their application if their topic has the same number of partitions as the input.
Otherwise they go to the partition of their key.

### Several topics

Use \`topics: [a, b]\` or \`topic_pattern: "loans-.*"\` instead of \`topic\`. Every process has one group member for each
topic, and the partitions of a topic are shared among its members. All records use the same scoring settings and sink;
\`sluice-source-topic\` is the topic of an application.

- **Patterns** are regular expressions that must match whole names. They are evaluated every 30 s. A new matching topic
  is read from its beginning, regardless of \`start_at\`; a removed topic is no longer read. Both are logged. If a new
  topic cannot be read (unsuitable partitions, a missing permission), this is logged and retried while the other topics
  continue.
- **\`until_caught_up\`** ends the run when the topics that existed at its start have been read to their end. With the
  default client, the run waits for transactions that are open at its start. The exit code is 3 if records were
  rejected, also if all were, because their dead letters are written and their offsets committed. It is 1 (\`cancelled\`)
  if a signal stopped the run before; the next run continues there.
- **Topics the pipeline writes** (sink, routes, dead letters) are never read. In \`topics\` they are an error in the file;
  if a pattern matches them, they are skipped and logged.
- **Memory**: when the pipeline joins a topic, the topic gets an equal share of \`in_flight_bytes\` among the topics that
  exist at that time.
- **Members**: with \`kafka.instance_id\`, group members are called \`ID.TOPIC\`. Metrics by partition also have the topic.
- **Restrictions**: several topics can be written only to a topic, not to files. \`dead_letter.retry\` needs a single
  topic.
- **Upgrading**: before you add a second topic, every member of the group must run a release that supports several
  topics. An older group leader assigns partitions of the new topic to members that do not read it. These partitions are
  not processed until the old leader leaves.

### Topics that are created again

When a topic is deleted, Kafka deletes the offsets of its groups too. If a topic with the same name is created, a
pipeline reads it from \`start_at\`, even if the pipeline was running, suspended or paused meanwhile. Offsets are
committed with the id of their topic. If an offset of the earlier topic is committed late, the new topic is read from
its beginning. Tables keep their offsets: see [databases.md](databases.md#topic-ids).

This needs brokers from Kafka 3.1 and the default client. With older brokers or \`kafkajs\`, stop the pipeline before you
delete a topic, and start it after the new topic was created. Otherwise it can continue at its old offset and skip
earlier records of the new topic.

### Timestamps and retention

A prediction has the timestamp of its application (\`timestamp: input\`). Brokers remove records by this timestamp
(\`retention.ms\`, under a \`cleanup.policy\` with \`delete\`), not by the time of writing. They may also reject timestamps
too far in the past or future (\`message.timestamp.before.max.ms\`, \`message.timestamp.after.max.ms\`).

Therefore a prediction gets the current time in two cases: its application is older than **half of the retention** of
the output topic, or that topic rejects the timestamp. The header \`sluice-source-timestamp\` then has the time of the
application. Readers thus have at least half of the retention to read each prediction. \`sluice_kafka_retimed_total\`
counts predictions with a replaced timestamp, and the log names the topic.

At the start, and with \`--dry-run\` and \`doctor\`, Sluice reports if the output topic has a shorter retention than the
input topic. If the configuration of a topic cannot be read (DESCRIBE_CONFIGS), a retention of 7 days is assumed. With
\`timestamp: now\` every prediction has the time of writing.

`;
