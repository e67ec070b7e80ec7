// Two programs that drain the same records from a topic of a real broker in turn: wall and CPU seconds, as ratios.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { KafkaCluster } from '../test/support/kafka/cluster.ts';
import { whatIsMissing } from '../test/support/kafka/install.ts';
import { produce } from '../test/support/kafka/topics.ts';
import { inPairs, type Ratios, ratios } from './pairs.ts';
import { CACHE, type Program, REGISTRY } from './prepare.ts';
import { folder, measure, say } from './run.ts';
import { typedApplications } from './typed-tables.ts';

const PARTITIONS = 3;

/** Ratios (first ÷ second) of `sluice run` from topic to topic until it has caught up; null: no broker can run here. */
export async function compareTopics(
  programs: readonly [Program, Program],
  { model, rows, rounds }: { model: string; rows: number; rounds: number },
): Promise<Ratios | null> {
  if (whatIsMissing() !== null) return null;
  const lines = readFileSync(await typedApplications(programs[0], rows, 'json'), 'utf8')
    .trimEnd()
    .split('\n');
  await using cluster = await KafkaCluster.start();
  await cluster.createTopic('in', PARTITIONS);
  await produce(cluster, 'in', lines.map((value, i) => ({ value, partition: i % PARTITIONS }))); // biome-ignore format: one line
  let drains = 0;
  const drain = async (program: Program) => {
    // Another group reads all records again.
    const name = `drain-${drains++}`;
    await cluster.createTopic(name, PARTITIONS);
    const file = path.join(folder(CACHE, 'outputs'), 'compare-topic.yaml');
    writeFileSync(
      file,
      `model: ${model}
source: { type: kafka, topic: in, group: ${name}, until_caught_up: true }
sink: { type: kafka, topic: ${name} }
kafka: { brokers: ["${cluster.brokers.join('","')}"] }
`,
    );
    return measure({ args: [...program.sluice, 'run', file, '--registry', REGISTRY] });
  };
  for (const program of programs) await drain(program);
  return ratios(
    await inPairs(programs, rounds, drain, async (round, [a, b]) => {
      const cpu = (u: typeof a) => ((u.userSeconds + u.systemSeconds) * 1e6) / rows;
      say(
        `round ${round + 1}/${rounds}  topic: here ${cpu(a).toFixed(1)} µs CPU a record, base ${cpu(b).toFixed(1)} µs`,
      );
    }),
  );
}
