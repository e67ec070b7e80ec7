// From a topic into files: members join, leave, are suspended and killed while files are open. Every record is in one file once, and
// every rejected record is a dead letter.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { MAIN, scratch } from '../../support/cli.ts';
import { numberedApplications, someApplications } from '../../support/kafka/applications.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, produce, readTopic } from '../../support/kafka/topics.ts';
import { checkTest, SEED, times } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const PARTITIONS = 2;
/** Records of one round, and of them those without a value in any column of the model, which are rejected. */
const ROUND = 300;
const REJECTED = 20;
const ROUNDS = times('rounds of members that write files', { quick: 0, check: 2, campaigns: 60 });
const EVENTS = ['join', 'suspend', 'kill', 'leave'] as const;

requireKafka('a topic into files', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());

  const applications = someApplications();
  const some = (count: number, from: number) =>
    numberedApplications(applications, { partitions: PARTITIONS, rejected: REJECTED }, count, from);

  /** A pipeline with its topics, the members that run it, and what they have written. */
  async function started(name: string, rolls: string) {
    const folder = scratch();
    const [input, letters] = [`${name}-in`, `${name}-dlq`];
    await Promise.all([cluster.createTopic(input, PARTITIONS), cluster.createTopic(letters, 1)]);
    const file = path.join(folder, 'p.yaml');
    writeFileSync(
      file,
      `model: credit-default
source: { type: kafka, topic: ${input}, group: ${name} }
score: { passthrough: [id], workers: 1, batch_rows: 32 }
sink: { type: file, path: "out/{partition}-{offset}.ndjson", ${rolls} }
dead_letter: { type: kafka, topic: ${letters} }
kafka: { brokers: ["${cluster.brokers[0]}"], session_timeout_ms: 2000 }
`,
    );
    const members: ChildProcess[] = [];
    let words = '';
    let sent = 0;
    return {
      members,
      get words() {
        return words;
      },
      get sent() {
        return sent;
      },
      join(): ChildProcess {
        const child = spawn(process.execPath, [MAIN, 'run', file, '--stop-ms', '3000'], {
          cwd: folder,
          env: { ...process.env, SLUICE_LOG_FORMAT: 'text' },
          stdio: ['ignore', 'ignore', 'pipe'],
        });
        child.stderr!.setEncoding('utf8').on('data', (text: string) => {
          words = (words + text).slice(-8000);
        });
        members.push(child);
        return child;
      },
      async end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
        if (child.exitCode === null && child.signalCode === null) {
          const gone = once(child, 'exit');
          child.kill(signal);
          await gone;
        }
        members.splice(members.indexOf(child), 1);
      },
      async send(): Promise<void> {
        await produce(cluster, input, some(ROUND, sent));
        sent += ROUND;
      },
      /** Until all records are in published files. */
      published: () =>
        until(async () => (await committed(cluster, name, input).catch(() => 0)) >= sent, `files: ${words}`),
      /** Places of the records in all files, in the order of partitions and offsets. */
      places(): string[] {
        const out = path.join(folder, 'out');
        const lines = readdirSync(out)
          .filter((f) => f.endsWith('.ndjson') && !f.startsWith('.'))
          .flatMap((f) => readFileSync(path.join(out, f), 'utf8').split('\n').filter(Boolean));
        return lines
          .map((line) => JSON.parse(line).id as number)
          .map(String)
          .sort((a, b) => Number(a) - Number(b));
      },
      hasOpenFile: () => existsSync(path.join(folder, 'out')) && readdirSync(path.join(folder, 'out')).length > 0,
      /** Removes the temporary files. Returns how many there were. */
      removeOpenFiles(): number {
        const out = path.join(folder, 'out');
        const open = existsSync(out) ? readdirSync(out).filter((name) => name.endsWith('.partial')) : [];
        for (const name of open) rmSync(path.join(out, name));
        return open.length;
      },
      letters: async (): Promise<number[]> =>
        (await readTopic(cluster, letters))
          .map(({ value }) => JSON.parse(String(value)).id as number)
          .sort((a, b) => a - b),
    };
  }

  const scored = (sent: number): string[] =>
    Array.from({ length: sent }, (_, id) => id)
      .filter((id) => id % ROUND >= REJECTED)
      .map(String);
  const rejected = (sent: number): number[] =>
    Array.from({ length: sent }, (_, id) => id).filter((id) => id % ROUND < REJECTED);

  checkTest('members that join while files are open: no record and no dead letter is written twice', async () => {
    const run = await started('joining', 'roll_ms: 6000');
    try {
      run.join();
      await run.send();
      await until(() => run.hasOpenFile(), `an open file: ${run.words}`);
      // The second member gets a partition, the third gets none. Each time, all members read their partitions again.
      run.join();
      run.join();
      await run.published();
      await run.send();
      await run.published();
      for (const member of [...run.members]) await run.end(member, 'SIGTERM');
      expect(run.places(), run.words).toEqual(scored(run.sent));
      expect(await run.letters()).toEqual(rejected(run.sent));
    } finally {
      for (const member of [...run.members]) await run.end(member, 'SIGKILL');
    }
  });

  checkTest('a file that cannot be published ends the run, although no further record arrives', async () => {
    const run = await started('unpublished', 'roll_ms: 5000');
    try {
      const member = run.join();
      await run.send();
      await until(() => run.removeOpenFiles() > 0, `an open file: ${run.words}`);
      await until(() => member.exitCode !== null, `the end of the run: ${run.words}`);
      expect([member.exitCode, run.words]).toEqual([1, expect.stringContaining('[output_failed]')]);
      run.members.splice(0);
      run.join();
      await run.published();
      expect(run.places(), run.words).toEqual(scored(run.sent));
      expect([...new Set(await run.letters())]).toEqual(rejected(run.sent));
    } finally {
      for (const member of [...run.members]) await run.end(member, 'SIGKILL');
    }
  });

  checkTest(
    `${ROUNDS} rounds of members that join, are suspended, are killed and leave: none lost, none doubled`,
    async () => {
      const run = await started('rounds', 'roll_ms: 1500, roll_rows: 100');
      let seed = SEED;
      const random = () => {
        seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
        return seed / 2 ** 32;
      };
      try {
        run.join();
        run.join();
        for (let round = 0; round < ROUNDS; round++) {
          const event = ROUNDS <= EVENTS.length ? EVENTS[round]! : EVENTS[Math.floor(random() * EVENTS.length)]!;
          await run.send();
          await until(() => run.hasOpenFile(), `an open file: ${run.words}`);
          const victim = run.members[Math.floor(random() * run.members.length)]!;
          if (event === 'join') run.join();
          else if (event === 'suspend') {
            // Until the other members have published the files of its partitions. Then its own timer finds an old file.
            victim.kill('SIGSTOP');
            await run.published();
            victim.kill('SIGCONT');
          } else {
            await run.end(victim, event === 'kill' ? 'SIGKILL' : 'SIGTERM');
            run.join();
          }
          await run.published();
          expect(
            run.members.map((m) => m.exitCode),
            run.words,
          ).toEqual(run.members.map(() => null));
        }
        for (const member of [...run.members]) await run.end(member, 'SIGTERM');
        expect(run.places(), run.words).toEqual(scored(run.sent));
        // A member that is killed between its dead letters and its file leaves them behind.
        expect([...new Set(await run.letters())]).toEqual(rejected(run.sent));
      } finally {
        for (const member of [...run.members]) await run.end(member, 'SIGKILL');
      }
    },
  );
});
