// Prose of docs/pipelines.md about topics: partitions, several topics, timestamps.

export const TOPICS = `### Partitions and growing topics

\`partition\` in the sink selects the partition of a prediction, in the main topic and in those of \`routes\`:

| \`partition\` | a prediction goes to | at the start | the input grows | an output grows |
| --- | --- | --- | --- | --- |
| \`source\` | the partition of its application | rejected (\`kafka_partitions_differ\`) if an output has fewer partitions than the input | records from a partition that an output lacks wait for 10 minutes, which is logged; then the run ends with \`kafka_partitions_differ\`. Other partitions continue | nothing moves |
| \`key\` | that of its key, as Java's producer chooses it (murmur2) | any numbers | nothing moves | keys move, as for every producer by key; this is logged |
| not set | the partition of its application | rejected if the numbers differ | as \`source\` | as \`source\`, and the log recommends \`partition: source\`, because the next start is rejected while the numbers differ |

No key therefore changes its partition silently. Without \`partition\`, Sluice does not derive a choice from the numbers,
because a run restarted after a topic has grown would choose differently. Add partitions to the outputs first and then
to the input, so that nothing waits. With \`key\`, records without a key from one partition of the input go to one
partition.

The order of each input partition is preserved: its predictions are in its order in every partition of the output. When
an input grows, its producers send some keys to other partitions. Earlier records in the old partition and later ones in
the new one are then answered concurrently. Partitions added during a run are read from their beginning, regardless of
\`start_at\`.

Dead letters go to the partition of their application if their topic has as many partitions, otherwise to that of their
key.

### Several topics

Use \`topics: [a, b]\` or \`topic_pattern: "loans-.*"\` instead of \`topic\`. Every process has one group member for each
topic, and the partitions of a topic are shared among its members. All records use the same scoring settings and sink;
\`sluice-source-topic\` is the topic of an application.

- **Patterns** are regular expressions that must match whole names. They are evaluated every 30 s. A new matching topic
  is read from its beginning, regardless of \`start_at\`; a removed one is dropped. Both are logged. A new topic that
  cannot be read (unsuitable partitions, a missing permission) is logged and retried while the others continue.
- **\`until_caught_up\`** covers the topics that exist at the start.
- **Topics the pipeline writes** (sink, routes, dead letters) are never read. In \`topics\` they are an error in the file;
  if a pattern matches them, they are skipped and logged.
- **Memory**: \`in_flight_bytes\` is divided among the topics that exist when each is joined.
- **Members**: with \`kafka.instance_id\` they are called \`ID.TOPIC\`. Metrics with partitions include the topic.
- **Restrictions**: several topics can be written only to a topic, not to files. \`dead_letter.retry\` needs a single
  topic.
- **Upgrading**: before you add a second topic, every member of the group must run a release that supports several. An
  older group leader assigns partitions of the new topic to members that do not read it, and they are not processed
  until it leaves.

### Timestamps and retention

A prediction has the timestamp of its application (\`timestamp: input\`). Brokers remove records by this timestamp
(\`retention.ms\`, under a \`cleanup.policy\` with \`delete\`), not by the time of writing. They may also reject timestamps
too far in the past or future (\`message.timestamp.before.max.ms\`, \`message.timestamp.after.max.ms\`).

Therefore a prediction gets the current time in two cases: its application is older than **half of the retention** of
its topic, or the topic rejects its timestamp. The header \`sluice-source-timestamp\` then has the time of the
application. Readers thus have at least half of the retention to read each prediction. \`sluice_kafka_retimed_total\`
counts them, and the log names the topic.

The start (also \`--dry-run\` and \`doctor\`) reports if the output has a shorter retention than the input. If the
configuration of a topic cannot be read (DESCRIBE_CONFIGS), a retention of 7 days is assumed. With \`timestamp: now\`
every prediction has the time of writing.

`;
