// Replicas: several servers behind a proxy, killed, restarted and paused while jobs run. No job is lost or doubled, each answers for each.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { startBalancer } from '../../support/proxies.ts';
import { ask, type Got, openShared, type Replica, type SharedPlace, startReplicas } from '../../support/replicas.ts';
import { predictUrl } from '../../support/service.ts';
import { TIER, times } from '../../support/tiers.ts';
import { checkTestNeeding } from '../../support/tools.ts';

const JOBS = times('replica jobs', { quick: 20, check: 20, campaigns: 1000 });
const KILLS = times('replica kills', { quick: 1, check: 1, campaigns: 20 });
const ROLLS = times('replica rolls', { quick: 1, check: 1, campaigns: 5 });
const [REPLICAS, CLIENTS] = TIER === 'campaigns' ? [3, 6] : [2, 3];
const LIST = '/api/v1/scoring/jobs';
/** What a client tries again: no answer, or one that says so. */
const AGAIN = new Set([null, 502, 503, 504]);

const portfolio = (rows: number, seed: number): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed, faults: 3, delimiter: '\t' })]);

/** Rows of most jobs; one in so many takes longer than a beat. */
const SIZES = [20, 300, 1500, 4000];
const LARGE = times('rows of a large job of replicas', { quick: 12_000, check: 12_000, campaigns: 40_000 });
const LARGE_EVERY = 25;

requirePostgres('replicas', () => {
  let place: SharedPlace;
  beforeAll(async () => {
    place = await openShared();
  });
  afterAll(() => place?.close());

  checkTestNeeding(
    ['HAProxy', 'versitygw'],
    `${JOBS} jobs of ${REPLICAS} replicas, ${KILLS} kills, ${ROLLS} rolling restarts and a pause: none lost, none doubled, no 404`,
    async () => {
      const table = 'campaign';
      const { replicas, token } = await startReplicas(REPLICAS, place, { table, leaseMs: 2000 });
      const port = await startBalancer(replicas.map((r) => r.port));
      const bodies = [...SIZES, LARGE].map((rows, i) => portfolio(rows, 100 + i));
      const seen: Record<string, number> = {};
      const count = (what: string) => {
        seen[what] = (seen[what] ?? 0) + 1;
      };
      /** Tries until an answer stands, as a client of a fleet does. */
      const insist = async (method: string, url: string, options: Parameters<typeof ask>[3] = {}): Promise<Got> => {
        for (;;) {
          const got = await ask(port, method, url, { token, ...options });
          if (got.status === 404) count('404');
          if (!AGAIN.has(got.status)) return got;
          count('again');
          await sleep(50);
        }
      };
      const expected = await Promise.all(
        bodies.map(async (body) => (await insist('POST', predictUrl('csv'), { body })).bytes),
      );
      const all = KILLS + ROLLS;
      const events = Array.from({ length: all }, (_, i) =>
        Math.floor(((i + 1) * ROLLS) / all) > Math.floor((i * ROLLS) / all) ? 'roll' : 'kill',
      );
      let happened = 0;
      let finished = 0;
      const ids = new Map<number, string>();

      const job = async (n: number): Promise<void> => {
        const which = n % LARGE_EVERY === 0 ? SIZES.length : n % SIZES.length;
        const headers = { prefer: 'respond-async', 'idempotency-key': `job-${n}` };
        const made = await insist('POST', predictUrl('csv'), { body: bodies[which]!, headers });
        expect([n, made.status, made.json?.code]).toEqual([n, 201, undefined]);
        const location = made.headers.location as string;
        ids.set(n, made.json.id);
        for (;;) {
          const { status, json } = await insist('GET', location);
          expect([n, status]).toEqual([n, 200]);
          if (json.state === 'done') break;
          expect([n, json.state, json.error]).toEqual([n, expect.stringMatching(/^(queued|running)$/), undefined]);
          await sleep(50);
        }
        const result = await insist('GET', `${location}/result`);
        expect([n, result.status, result.bytes.equals(expected[which]!)]).toEqual([n, 200, true]);
        const range = await insist('GET', `${location}/result`, { headers: { range: 'bytes=10-29' } });
        expect([range.status, range.bytes.equals(expected[which]!.subarray(10, 30))]).toEqual([206, true]);
        finished++;
      };

      let next = 0;
      const client = async (): Promise<void> => {
        while (next < JOBS) {
          // Jobs go on for as long as something happens to the servers.
          if (next * events.length > (happened + 1) * JOBS) await sleep(20);
          else await job(next++);
        }
      };
      let over = false;
      /** Answers without a job: whole, refused, or seen to be cut. */
      const direct = async (): Promise<void> => {
        let n = 0;
        while (!over) {
          const which = n++ % 10 === 0 ? SIZES.length : 2;
          const got = await ask(port, 'POST', predictUrl('csv'), { token, body: bodies[which]! });
          if (got.status === 200) count(got.bytes.equals(expected[which]!) ? 'whole' : 'cut unseen');
          else count(got.status === null ? 'cut seen' : `refused ${got.status}`);
          // Leaves room for the jobs.
          await sleep(200);
        }
      };
      const harm = async (): Promise<void> => {
        for (const [i, event] of events.entries()) {
          await expect.poll(() => finished * events.length >= (i - 1) * JOBS).toBe(true);
          if (event === 'kill') {
            const victim = (await busyOne(place, table, replicas)) ?? replicas[i % replicas.length]!;
            await victim.end('SIGKILL');
            await victim.start();
          } else {
            for (const replica of replicas) {
              expect((await replica.end('SIGTERM')).code).toBe(0);
              await replica.start();
            }
          }
          happened++;
        }
      };
      const answers = direct();
      await Promise.all([harm(), ...Array.from({ length: CLIENTS }, client)]);
      over = true;
      await answers;
      const logs = replicas.map((r) => r.log).join('\n');
      seen.takeovers = logs.split('taken over').length - 1;
      console.log(JSON.stringify(seen));

      expect([seen['404'] ?? 0, seen['cut unseen'] ?? 0]).toEqual([0, 0]);
      expect(seen.whole).toBeGreaterThan(0);
      // One kill in a while finds a job that has just ended.
      if (KILLS >= 10) expect(seen.takeovers).toBeGreaterThan(0);
      expect(new Set(ids.values()).size).toBe(JOBS);
      const rows = await place.postgres.query(`SELECT id, state, epoch::int, idempotency_key AS key FROM ${table}`);
      expect(
        rows.rows
          .filter((r) => r.state !== 'reserved')
          .map((r) => [r.id, r.state, r.key])
          .sort(),
      ).toEqual([...ids].map(([n, id]) => [id, 'done', `job-${n}`]).sort());
      await everyJobListed(insist, ids);
      await onlyResultsStay(place, table);
      await pausedBeyondItsLease(table, replicas.slice(0, 2), token);
    },
  );

  /** Whoever runs a job just now. */
  async function busyOne(
    { postgres }: SharedPlace,
    table: string,
    replicas: readonly Replica[],
  ): Promise<Replica | null> {
    for (let i = 0; i < 40; i++) {
      const { rows } = await postgres.query(
        `SELECT holder FROM ${table} WHERE state = 'running' AND lease_until > now()`,
      );
      const busy = replicas.find((r) => rows.some((row) => row.holder.includes(` ${r.pid} `)));
      if (busy) return busy;
      await sleep(10);
    }
    return null;
  }

  async function everyJobListed(
    insist: (method: string, url: string) => Promise<Got>,
    ids: ReadonlyMap<number, string>,
  ): Promise<void> {
    const listed: string[] = [];
    for (let after = ''; ; ) {
      const { json } = await insist('GET', `${LIST}?limit=17&state=done${after}`);
      listed.push(...json.jobs.map((j: { id: string }) => j.id));
      if (json.next === undefined) break;
      after = `&after=${json.next}`;
    }
    expect(listed.sort()).toEqual([...ids.values()].sort());
  }

  /** What killed servers left is swept: one result of each job, of the epoch that is in the table, and no upload. */
  async function onlyResultsStay({ postgres, bucket }: SharedPlace, table: string): Promise<void> {
    const { rows } = await postgres.query(`SELECT id, epoch::int FROM ${table} WHERE state = 'done'`);
    const wanted = rows.map((r) => `${table}/${r.id}/${r.epoch}/result`).sort();
    await expect
      .poll(async () => (await bucket.list(`${table}/`)).objects.map((o) => o.key).sort(), { interval: 500 })
      .toEqual(wanted);
    const reserved = () => postgres.query(`SELECT id FROM ${table} WHERE state = 'reserved'`);
    await expect.poll(async () => (await reserved()).rows, { interval: 500 }).toEqual([]);
  }

  /** Who was paused beyond its lease finishes nothing: the job is done once, by another, and it goes on in order. */
  async function pausedBeyondItsLease(table: string, replicas: readonly Replica[], token: string): Promise<void> {
    const body = portfolio(20_000, 7);
    const rowOf = async (id: string) =>
      (await place.postgres.query(`SELECT state, epoch::int, holder FROM ${table} WHERE id = $1`, [id])).rows[0];
    /** Stops a server while it runs a job; null: it was faster. */
    const stopped = async (): Promise<{ holder: Replica; location: string; id: string } | null> => {
      const headers = { prefer: 'respond-async' };
      const made = await ask(replicas[0]!.port, 'POST', predictUrl('csv'), { token, body, headers });
      expect(made.status).toBe(201);
      const { id } = made.json;
      await expect.poll(async () => (await rowOf(id)).state, { interval: 5 }).not.toBe('queued');
      const { holder: said } = await rowOf(id);
      const holder = replicas.find((r) => said.includes(` ${r.pid} `))!;
      holder.signal('SIGSTOP');
      if ((await rowOf(id)).state === 'running') return { holder, location: made.headers.location as string, id };
      holder.signal('SIGCONT');
      return null;
    };
    let caught = await stopped();
    while (!caught) caught = await stopped();
    const { holder, location, id } = caught;
    const other = replicas.find((r) => r !== holder)!;
    const times = (log: string, word: string) => log.split(word).length;
    const [gaveUp, tookOver] = [times(holder.log, 'lease lost'), times(other.log, 'taken over')];
    const before = await rowOf(id);
    await expect
      .poll(async () => (await ask(other.port, 'GET', location, { token })).json?.state, { interval: 50 })
      .toBe('done');
    const done = await rowOf(id);
    expect(done.epoch).toBeGreaterThan(before.epoch);
    const result = await ask(other.port, 'GET', `${location}/result`, { token });
    holder.signal('SIGCONT');
    await expect.poll(() => times(holder.log, 'lease lost'), { interval: 50 }).toBeGreaterThan(gaveUp);
    expect(times(other.log, 'taken over')).toBeGreaterThan(tookOver);
    // Both say the same, and the one that woke up takes the next job.
    for (const { port } of replicas) {
      expect((await ask(port, 'GET', location, { token })).json).toMatchObject({ state: 'done' });
      const again = await ask(port, 'GET', `${location}/result`, { token });
      expect([again.status, again.bytes.equals(result.bytes)]).toEqual([200, true]);
    }
    expect(await rowOf(id)).toMatchObject({ state: 'done', epoch: done.epoch, holder: done.holder });
    await onlyResultsStay(place, table);
    const metrics = await ask(other.port, 'GET', '/metrics', { token });
    expect(metrics.bytes.toString()).toMatch(/^sluice_job_takeovers_total [1-9]/m);
    const lost = await ask(holder.port, 'GET', '/metrics', { token });
    expect(lost.bytes.toString()).toMatch(/^sluice_job_leases_lost_total [1-9]/m);
  }
});
