// A thousand letters of eight codes, settled by selections that overlap, in any order, by processes that are killed and that compete: each
// letter is put back once or dropped, never both and never neither.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { KafkaConnection } from '../../../../src/connectors/kafka/client/connection.ts';
import {
  type DeadLetterSelection,
  type DeadLetterState,
  selects,
} from '../../../../src/connectors/kafka/dlq/dead-letter.ts';
import { DeadLetterTopic } from '../../../../src/connectors/kafka/dlq/dead-letter-topic.ts';
import { OffsetRanges } from '../../../../src/connectors/kafka/dlq/offset-ranges.ts';
import { settleDeadLetters } from '../../../../src/connectors/kafka/dlq/settle-dead-letters.ts';
import { scratch, start } from '../../../support/cli.ts';
import { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { type MadeLetter, writeLetters } from '../../../support/kafka/letters.ts';
import { requireKafka } from '../../../support/kafka/require.ts';
import type { SettleOrder } from '../../../support/kafka/settle-process.ts';
import { addPartitions, readTopic } from '../../../support/kafka/topics.ts';
import { SEED, times } from '../../../support/tiers.ts';

const ROUNDS = times('settlements', { quick: 0, check: 1, campaigns: 20 });
const LETTERS = times('letters', { quick: 0, check: 50, campaigns: 1000 });
const CODES = ['unseen', 'number', 'missing', 'range', 'type', 'large', 'empty', 'column'];
const COLUMNS = ['income', 'purpose', 'age'];
/** Two days ago. */
const T0 = Math.floor(Date.now() / 60_000 - 48 * 60) * 60_000;
const FINAL: readonly DeadLetterState[] = ['replayed', 'dropped'];

/** Uniform below 1, from a seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

class Dice {
  readonly #random: () => number;
  constructor(seed: number) {
    this.#random = randomFrom(seed);
  }
  below(n: number): number {
    return Math.floor(this.#random() * n);
  }
  one<T>(of: readonly T[]): T {
    return of[this.below(of.length)]!;
  }
  some<T>(of: readonly T[]): T[] {
    return of.filter(() => this.below(3) === 0);
  }
}

/** A selection, and the flags that say it. */
function selectionBy(dice: Dice): { selection: DeadLetterSelection; flags: string[] } {
  const codes = dice.some(CODES);
  const since = T0 + dice.below(LETTERS) * 60_000;
  const until = since + dice.below(LETTERS) * 60_000;
  const first = dice.below(LETTERS / 3);
  const offsets = new OffsetRanges();
  offsets.add(first, first + dice.below(200));
  const key = `k${dice.below(20)}`;
  const partition = dice.below(3);
  const iso = (time: number) => new Date(time).toISOString();
  return dice.one([
    { selection: { codes }, flags: ['--code', codes.join(',') || 'none'] },
    { selection: { columns: [COLUMNS[0]!] }, flags: ['--column', COLUMNS[0]!] },
    { selection: { key: Buffer.from(key) }, flags: ['--key', key] },
    { selection: { since, until }, flags: ['--since', iso(since), '--until', iso(until)] },
    { selection: { pipelines: ['night'], codes }, flags: ['--pipeline', 'night', '--code', codes.join(',') || 'none'] },
    { selection: { partition, offsets }, flags: ['--partition', String(partition), '--offsets', String(offsets)] },
  ]);
}

requireKafka('selections of dead letters', () => {
  test.for(Array.from({ length: ROUNDS }, (_, i) => SEED + i))('any order of them, seed %i', async (seed) => {
    await using cluster = await KafkaCluster.shared();
    const dice = new Dice(seed);
    const connection: KafkaConnection = { brokers: cluster.brokers };
    const named = (name: string) => `${name}-of-${seed}`;
    const inputs = [await cluster.createTopic(named('in-0'), 3), await cluster.createTopic(named('in-1'), 2)];
    const deadLetterTopic = await cluster.createTopic(named('letters'), 2);
    const letters = Array.from({ length: LETTERS }, (_, id): MadeLetter => {
      const topic = dice.one(inputs);
      const from = { topic, partition: dice.below(topic === inputs[0] ? 3 : 2) };
      const column = dice.below(4) === 0 ? {} : { column: dice.one(COLUMNS) };
      const pipeline = dice.one(['day', 'night']);
      const key = dice.below(9) === 0 ? null : `k${dice.below(20)}`;
      const time = T0 + dice.below(LETTERS) * 60_000;
      return { id, partition: 0, from, key, code: dice.one(CODES), ...column, pipeline, time };
    });
    // Half of them before a partition is added and anything is settled, half between.
    const place = (part: MadeLetter[], partitions: number) =>
      part.map((l) => ({ ...l, partition: dice.below(partitions) }));
    await writeLetters(cluster, deadLetterTopic, place(letters.slice(0, LETTERS / 2), 2), 30);

    const folder = scratch();
    const file = path.join(folder, 'p.yaml');
    const ends = `source: { type: kafka, topic: ${inputs[0]}, group: g }\nsink: { type: kafka, topic: out }`;
    const kafka = `kafka: { brokers: ["${cluster.brokers.join('","')}"] }`;
    const letterTopic = `dead_letter: { type: kafka, topic: ${deadLetterTopic} }`;
    writeFileSync(file, `model: credit-default\n${ends}\n${letterTopic}\n${kafka}\n`);

    const survey = async () => {
      await using topic = new DeadLetterTopic({ connection, topic: deadLetterTopic });
      const found = [];
      for await (const one of topic.letters(await topic.survey())) found.push(one);
      return found;
    };
    const settleInProcess = async () => {
      const { selection } = selectionBy(dice);
      const before = await survey();
      const meant = before.filter((f) => f.state === 'open' && selects(selection, f.letter, f.record.key)).length;
      const limit = dice.below(3) === 0 ? 1 + dice.below(40) : undefined;
      const action = dice.below(4) === 0 ? 'dropped' : 'replayed';
      const report = await settleDeadLetters({ connection, deadLetterTopic, action, selection, limit });
      expect(report.settled).toBe(Math.min(meant, limit ?? meant));
    };
    const startSettling = () => {
      const { flags } = selectionBy(dice);
      return start(['dlq', dice.below(4) === 0 ? 'drop' : 'replay', file, ...flags, '--json'], { cwd: folder });
    };
    let kills = 0;
    let inTheMiddle = 0;
    let refusals = 0;
    const killSettling = async () => {
      const before = (await survey()).filter((f) => f.state !== 'open').length;
      const order: SettleOrder = {
        brokers: cluster.brokers,
        deadLetterTopic,
        action: dice.below(4) === 0 ? 'dropped' : 'replayed',
        selection: { codes: dice.some(CODES) },
        transactionLetters: 1 + dice.below(8),
      };
      const settling = spawn(process.execPath, ['test/support/kafka/settle-process.ts', JSON.stringify(order)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const ended = once(settling, 'exit');
      await once(settling.stdout!, 'data');
      // Varies the moment of the kill.
      await sleep(dice.below(900));
      settling.kill('SIGKILL');
      await ended;
      if (settling.signalCode === 'SIGKILL') kills++;
      const after = (await survey()).filter((f) => f.state !== 'open').length;
      if (settling.signalCode === 'SIGKILL' && after > before) inTheMiddle++;
    };
    const twoAtOnce = async () => {
      const both = [startSettling(), startSettling()];
      for (const run of await Promise.all(both.map((d) => d.done))) {
        if (run.code !== 0) {
          expect(run.stderr).toContain('[dead_letters_taken_over]');
          refusals++;
        }
      }
    };
    const steps = 10 + dice.below(6);
    for (let step = 0; step < steps; step++) {
      if (step === 3) {
        await addPartitions(cluster, [deadLetterTopic], 3);
        await writeLetters(cluster, deadLetterTopic, place(letters.slice(LETTERS / 2), 3), 30);
      }
      await dice.one([settleInProcess, settleInProcess, killSettling, killSettling, killSettling, twoAtOnce])();
    }

    await settleDeadLetters({ connection, deadLetterTopic, action: 'replayed' });
    const states = new Map<number, DeadLetterState>();
    for (const { record, state } of await survey()) {
      const id = Number(String(record.headers.id));
      expect(states.has(id)).toBe(false);
      expect(FINAL).toContain(state);
      states.set(id, state);
    }
    expect(states.size).toBe(LETTERS);
    const seen = new Map<number, number>();
    for (const topic of inputs) {
      for (const { headers, partition } of await readTopic(cluster, topic)) {
        const id = Number(headers.id);
        seen.set(id, (seen.get(id) ?? 0) + 1);
        expect({ topic, partition }).toEqual(letters[id]!.from);
      }
    }
    for (const [id, state] of states)
      expect([id, state, seen.get(id) ?? 0]).toEqual([id, state, state === 'replayed' ? 1 : 0]);
    const count = (state: DeadLetterState) => [...states.values()].filter((s) => s === state).length;
    console.log(
      `seed ${seed}: ${count('replayed')} replayed, ${count('dropped')} dropped, ${kills} kills (${inTheMiddle} in the middle), ${refusals} refusals`,
    );
  });
});
