// Prose of docs/pipelines.md about topics: partitions, several topics, timestamps.

export const TOPICS = `### Partitions and growing topics

\`partition\` in the sink says which partition a prediction goes to, in the main topic and in those of \`routes\` alike:

| \`partition\` | a prediction goes to | at the start | the input grows | an output grows |
| --- | --- | --- | --- | --- |
| \`source\` | the partition of its application | refused (\`kafka_partitions_differ\`) where an output has fewer partitions than the input | what comes from a partition that an output does not have waits, in words, for 10 minutes; then the run ends with \`kafka_partitions_differ\`. Other partitions go on | nothing moves |
| \`key\` | that of its key, as Java's producer chooses it (murmur2) | any numbers | nothing moves | keys move, as for every producer by key; a line of the log says so |
| not said | the partition of its application | refused where the numbers differ | as \`source\` | as \`source\`, and a line of the log asks for \`partition: source\`, because the next start is refused while the numbers differ |

So no key changes its partition without a word. Not said is not guessed from the numbers, *because* a run that starts again after a topic has
grown would come to another choice than the one before it. Add partitions to the outputs first and to the input then: nothing waits.
Records without a key stay together under \`key\`, too: those of one partition of the input go to one partition.

The order that is kept is that of a partition of the input: its predictions are in its order in every partition of the output. When an input
grows, its producers send some keys to other partitions, and what was before in the old one and what comes in the new one are answered side by
side. Partitions that come while a run goes on are read from their beginning, whatever \`start_at\` says.

Dead letters go to the partition of their application where their topic has as many partitions, else to that of their key.

### Several topics

\`topics: [a, b]\` or \`topic_pattern: "loans-.*"\` instead of \`topic\`: every process has a member in the group for each topic, and partitions of a
topic are shared among its members. All of it goes through one score and into one sink; \`sluice-source-topic\` says where an application came
from. A pattern is a regular expression that has to match whole names. It is asked for every 30 s: a topic that has come to match is read, from
its beginning whatever \`start_at\` says, and one that is gone is left, both in words; a new one that cannot be read (its partitions do not fit, a
permission is missing) is told of and tried again while the others go on. With \`until_caught_up\` the topics of the start are all. What the
pipeline writes itself (sink, routes, dead letters) is never read: named in \`topics\` it is a fault of the file, matched by a pattern it is left
out in words.

\`in_flight_bytes\` is divided among the topics there are when each is joined. With a \`kafka.instance_id\` the members are \`ID.TOPIC\`. Metrics that
name partitions name the topic. From several topics only a topic is written, no files, and \`dead_letter.retry\` needs a single topic. Before a second topic is added every member of the group
has to run a release that knows several: an older one that leads the group gives its topic's partitions to members that do not read it, and they
stand still until it has gone.

### Timestamps and retention

A prediction has the timestamp of its application (\`timestamp: input\`). Brokers remove records by that time (\`retention.ms\`, under a
\`cleanup.policy\` with \`delete\`), not by when they were written, and may refuse times that are too old or ahead
(\`message.timestamp.before.max.ms\`, \`message.timestamp.after.max.ms\`). Therefore a prediction whose application is older than **half of the
retention** of its topic, or whose time the topic refuses, gets the time of now, and that of its application in the header
\`sluice-source-timestamp\`: readers have every prediction for half of the retention at least. \`sluice_kafka_retimed_total\` counts them, a line of
the log names the topic, and so does the start (and \`--dry-run\`, \`doctor\`) where the output keeps records for a shorter time than the input. Where
the settings of a topic may not be read (DESCRIBE_CONFIGS), 7 days are taken for its retention. With \`timestamp: now\` every prediction has the
time it was written at.

`;
