// From a topic to a table, exactly once: members are killed, put to sleep and woken, and the database goes away, while records come in.
// What counts is the table: every record is there once, as a row or as a dead letter, and no later one before an earlier one.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { MAIN, scratch, sluiceHere } from '../../support/cli.ts';
import { numberedApplications, someApplications } from '../../support/kafka/applications.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { deleteRecords, produce } from '../../support/kafka/topics.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../../support/postgres/server.ts';
import { SEED, times } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const KILLS = times('table kills', { quick: 1, check: 1, campaigns: 50 });
const PARTITIONS = 3;
/** Applications of one round, and of them those without a value in any column of the model, which are rejected. */
const ROUND = 900;
const REJECTED = 100;

requirePostgres('a topic into a table', () => {
  requireKafka('with a broker', () => {
    let cluster: KafkaCluster;
    let server: PostgresServer;
    beforeAll(async () => {
      [cluster, server] = await Promise.all([KafkaCluster.shared(), startPostgres()]);
    });
    afterAll(async () => {
      await Promise.all([cluster?.stop(), server?.stop()]);
    });

    const applications = someApplications();
    const some = (count: number, from: number) =>
      numberedApplications(applications, { partitions: PARTITIONS, rejected: REJECTED }, count, from);
    const pipeline = (
      folder: string,
      id: string,
      more: { sink?: string; source?: string; rest?: string } = {},
    ): string => {
      const file = path.join(folder, `${id}.yaml`);
      writeFileSync(
        file,
        `model: credit-default
source: { type: kafka, topic: ${id}, group: ${id}${more.source ?? ''} }
score: { passthrough: [id], workers: 1, batch_rows: 64 }
sink: { type: postgres, url_env: DB, table: ${more.sink ?? `${id}_rows`} }
${more.rest ?? `dead_letter: { type: postgres, table: ${id}_letters }`}
transaction_timeout_ms: 4000
kafka: { brokers: ["${cluster.brokers[0]}"], session_timeout_ms: 2000 }
`,
      );
      return file;
    };
    const countOf = async (table: string): Promise<number> => {
      const found = await server.query(`SELECT count(*)::int AS n FROM ${table}`).catch(() => null);
      return found?.rows[0].n ?? 0;
    };

    test('rows, dead letters and offsets; a second run goes on where the first one ended', async () => {
      const folder = scratch();
      await cluster.createTopic('once', PARTITIONS);
      const file = pipeline(folder, 'once', { source: ', until_caught_up: true' });
      const env = { DB: server.url };
      const large = { key: 'large', value: JSON.stringify({ ...applications[0], id: 0 }).replace('"id":0', '"id":9007199254740993'), partition: 0 }; // biome-ignore format: one line
      const nul = { key: 'nul', value: JSON.stringify({ ...applications[0], id: 'a\0b' }), partition: 0 };
      for (const [from, more] of [
        [0, [large, nul]],
        [ROUND, []],
      ] as const) {
        await produce(cluster, 'once', [...some(ROUND, from), ...more]);
        const { code, stderr } = await sluiceHere(['run', file], { cwd: folder, env });
        expect(code, stderr).toBe(3);
      }
      expect([await countOf('once_rows'), await countOf('once_letters')]).toEqual([
        2 * (ROUND - REJECTED) + 1,
        2 * REJECTED + 1,
      ]);
      const first = await server.query(`SELECT * FROM once_rows WHERE id = '${REJECTED}'`);
      expect(first.rows).toEqual([
        expect.objectContaining({ topic: 'once', partition: String(REJECTED % PARTITIONS), model_id: 'credit-default', model_version: '1', probability: expect.any(Number), error_code: null }), // biome-ignore format: one line
      ]);
      expect((await server.query("SELECT 1 FROM once_rows WHERE id = '9007199254740993'")).rowCount).toBe(1);
      const letters = await server.query(
        "SELECT error_code, convert_from(value, 'UTF8') AS value FROM once_letters WHERE key = 'nul'",
      );
      expect(letters.rows).toEqual([{ error_code: 'invalid_character', value: nul.value }]);
      const offsets = await server.query(
        "SELECT sum(next_offset)::int AS n FROM sluice_offsets WHERE pipeline = 'once'",
      );
      expect(offsets.rows).toEqual([{ n: 2 * ROUND + 2 }]);
    });

    test.each(['earliest', 'latest'])('records removed before they were read: on_offset_lost %s', async (how) => {
      const folder = scratch();
      const name = `gone_${how}`;
      await cluster.createTopic(name, 1);
      const file = pipeline(folder, name, { source: `, until_caught_up: true, on_offset_lost: ${how}` });
      const run = async (code: number) => {
        const done = await sluiceHere(['run', file], { cwd: folder, env: { DB: server.url } });
        expect(done.code, done.stderr).toBe(code);
      };
      const feed = (from: number) =>
        produce(
          cluster,
          name,
          some(ROUND, from).map((message) => ({ ...message, partition: 0 })),
        );
      await feed(0);
      await run(3);
      await feed(ROUND);
      const kept = 100;
      await deleteRecords(cluster, name, [{ partition: 0, offset: String(2 * ROUND - kept) }]);
      await run(0);
      const places = async () => {
        const { rows } = await server.query(`SELECT "offset"::int AS n FROM ${name}_rows WHERE "offset" >= ${ROUND}`);
        return rows.map(({ n }) => n).sort((x, y) => x - y);
      };
      const behind = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);
      const left = how === 'earliest' ? behind(2 * ROUND - kept, kept) : [];
      expect(await places()).toEqual(left);
      const { rows } = await server.query(
        `SELECT next_offset::int AS n FROM sluice_offsets WHERE pipeline = '${name}'`,
      );
      expect(rows).toEqual([{ n: 2 * ROUND }]);
      await feed(2 * ROUND);
      await run(3);
      expect(await places()).toEqual([...left, ...behind(2 * ROUND + REJECTED, ROUND - REJECTED)]);
    });

    /** Creates a topic with one partition and `count` valid applications with the ids from `from`. */
    async function fill(name: string, count: number, from: number): Promise<void> {
      await cluster.createTopic(name, 1);
      const messages = Array.from({ length: count }, (_, i) => ({ id: from + i, ...applications[i % 100] }));
      await produce(
        cluster,
        name,
        messages.map((m) => ({ key: `k${m.id}`, value: JSON.stringify(m), partition: 0 })),
      );
    }

    async function remove(name: string): Promise<void> {
      const admin = await cluster.admin();
      await admin.deleteTopics({ topics: [name] });
      await until(async () => !(await admin.listTopics()).includes(name), 'the topic is deleted');
    }

    test('a topic that was created again while the member was suspended', async () => {
      const folder = scratch();
      const name = 'suspended';
      const file = pipeline(folder, name, {
        source: ', on_offset_lost: earliest',
        sink: `${name}_rows, mode: merge, key: [id]`,
        rest: 'on_invalid: report',
      });
      await fill(name, 300, 0);
      let words = '';
      const member = spawn(process.execPath, [MAIN, 'run', file, '--stop-ms', '3000'], {
        cwd: folder,
        env: { ...process.env, DB: server.url, SLUICE_LOG_FORMAT: 'text' },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      member.stderr!.setEncoding('utf8').on('data', (text: string) => {
        words += text;
      });
      const gone = once(member, 'exit');
      try {
        await until(async () => (await countOf(`${name}_rows`)) === 300, `the rows of the first topic: ${words}`);
        member.kill('SIGSTOP');
        await remove(name);
        await fill(name, 800, 1000);
        member.kill('SIGCONT');
        await until(
          async () => (await server.query(`SELECT 1 FROM ${name}_rows WHERE id = '1799'`)).rowCount === 1,
          `the last row: ${words}`,
        );
        expect(await countOf(`${name}_rows`), words).toBe(1100);
      } finally {
        member.kill('SIGKILL');
        await gone;
      }
    });

    test.each([
      { how: 'stop', rows: 0, code: 1 },
      { how: 'earliest', rows: 800, code: 0 },
      { how: 'latest', rows: 0, code: 0 },
    ])('a topic that was created again: on_offset_lost $how', async ({ how, rows, code }) => {
      const folder = scratch();
      const name = `again_${how}`;
      const file = pipeline(folder, name, {
        source: `, until_caught_up: true, on_offset_lost: ${how}`,
        sink: `${name}_rows, mode: merge, key: [id]`,
        rest: 'on_invalid: report',
      });
      const run = () => sluiceHere(['run', file], { cwd: folder, env: { DB: server.url } });
      await fill(name, 300, 0);
      const first = await run();
      expect(first.code, first.stderr).toBe(0);
      expect(await countOf(`${name}_rows`)).toBe(300);
      await remove(name);
      await fill(name, 800, 1000);
      const second = await run();
      expect(second.code, second.stderr).toBe(code);
      if (how === 'stop') expect(second.stderr).toMatch(/was deleted and created again/);
      expect(await countOf(`${name}_rows`)).toBe(300 + rows);
      const stored = await server.query(`SELECT next_offset::int AS n FROM sluice_offsets WHERE pipeline = '${name}'`);
      expect(stored.rows).toEqual([{ n: how === 'stop' ? 300 : 800 }]);
      const third = await run();
      expect(third.code, third.stderr).toBe(code);
      expect(await countOf(`${name}_rows`)).toBe(300 + rows);
    });

    test('a merge keeps the last prediction of each key', async () => {
      const folder = scratch();
      await cluster.createTopic('last', 1);
      const file = pipeline(folder, 'last', {
        source: ', until_caught_up: true',
        sink: 'last_rows, mode: merge, key: [id]',
        rest: 'on_invalid: report',
      });
      const messages = [1, 2, 1, 3, 1, 2].map((id, i) => ({
        key: `k${i}`,
        value: JSON.stringify({ id, ...applications[i] }),
        partition: 0,
      }));
      await produce(cluster, 'last', messages);
      const { code, stderr } = await sluiceHere(['run', file], { cwd: folder, env: { DB: server.url } });
      expect(code, stderr).toBe(0);
      const { rows } = await server.query('SELECT id, "offset" FROM last_rows ORDER BY id');
      expect(rows).toEqual([{ id: '1', offset: '4' }, { id: '2', offset: '5' }, { id: '3', offset: '3' }]); // biome-ignore format: one line
    });

    test(`${KILLS} kills of members, with sleepers and databases that go away: none lost, none doubled`, async () => {
      const folder = scratch();
      await cluster.createTopic('chaos', PARTITIONS);
      const file = pipeline(folder, 'chaos');
      // Members that sleep past their transaction and wake up are the ones that could write twice.
      let seed = SEED;
      const random = () => {
        seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
        return seed / 2 ** 32;
      };
      let words = '';
      const member = (): ChildProcess => {
        const child = spawn(process.execPath, [MAIN, 'run', file, '--stop-ms', '3000'], {
          cwd: folder,
          env: { ...process.env, DB: server.url, SLUICE_LOG_FORMAT: 'text' },
          stdio: ['ignore', 'ignore', 'pipe'],
        });
        child.stderr!.setEncoding('utf8').on('data', (text: string) => {
          words = (words + text).slice(-8000);
        });
        return child;
      };
      const members = [member(), member()];
      let sent = 0;
      const send = async () => {
        await produce(cluster, 'chaos', some(ROUND, sent));
        sent += ROUND;
      };
      const done = async () => (await countOf('chaos_rows')) + (await countOf('chaos_letters'));
      try {
        for (let kill = 0; kill < KILLS; kill++) {
          const before = await done();
          await send();
          await until(async () => (await done()) > before, `rows of round ${kill}: ${words}`);
          // Varies the moment of the kill.
          await sleep(random() * 150);
          const at = Math.floor(random() * members.length);
          const victim = members[at]!;
          if (kill % 5 === 1) {
            // Until another member has taken over its partitions and answered their records.
            victim.kill('SIGSTOP');
            await until(async () => (await done()) >= sent, `all rows of round ${kill} without a member: ${words}`);
            victim.kill('SIGCONT');
          } else if (kill % 5 === 3) {
            if (random() < 0.5) await server.crash();
            else
              await server.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sluice%'",
              );
          }
          expect(
            members.map((m) => m.exitCode),
            words,
          ).toEqual([null, null]);
          const gone = once(victim, 'exit');
          if (kill % 5 !== 1 || random() < 0.5) {
            victim.kill('SIGKILL');
            await gone;
            members[at] = member();
          }
        }
        await until(async () => (await done()) >= sent, `all rows: ${words}`);
      } finally {
        for (const child of members) {
          if (child.exitCode !== null || child.signalCode !== null) continue;
          const gone = once(child, 'exit');
          child.kill('SIGKILL');
          await gone;
        }
      }
      const { rows } = await server.query(
        `SELECT count(*)::int AS n, count(DISTINCT (partition, "offset"))::int AS different FROM
           (SELECT partition, "offset" FROM chaos_rows UNION ALL SELECT partition, "offset" FROM chaos_letters) AS a`,
      );
      expect(rows).toEqual([{ n: sent, different: sent }]);
      const offsets = await server.query(
        "SELECT sum(next_offset)::int AS n FROM sluice_offsets WHERE pipeline = 'chaos'",
      );
      expect(offsets.rows).toEqual([{ n: sent }]);
    });
  });
});
