// Logins with tokens against a broker that checks their signatures: taken, refused in words, and renewed under load without a trace.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { BearerLogin, KafkaConnection } from '../../../src/connectors/kafka/client/connection.ts';
import type { KafkaClient } from '../../../src/connectors/kafka/client/kafka-client.ts';
import { kafkajsClient } from '../../../src/connectors/kafka/kafkajs/kafkajs-client.ts';
import { platformaticClient } from '../../../src/connectors/kafka/platformatic/platformatic-client.ts';
import { SluiceError } from '../../../src/core/errors.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { CLIENT_SECRET, Issuer } from '../../support/kafka/issuer.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, numbered, produce, readTopic } from '../../support/kafka/topics.ts';
import { PATIENCE_MS } from '../../support/patience.ts';
import { freePorts } from '../../support/ports.ts';
import { campaignTest, times } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';
import type { WorkerSettings } from './chaos/worker.ts';

const CLIENTS: readonly KafkaClient[] = [kafkajsClient, platformaticClient];
/** Sessions so short that each connection is renewed several times a test, ms. */
const SESSION_MS = 3_000;

requireKafka('logins with tokens', () => {
  let cluster: KafkaCluster;
  let issuer: Issuer;
  let address: string;
  beforeAll(async () => {
    process.env.SLUICE_TEST_CLIENT_SECRET = CLIENT_SECRET;
    issuer = await Issuer.open('/dev/null');
    const [port] = await freePorts(1);
    address = `127.0.0.1:${port}`;
    cluster = await KafkaCluster.start({
      settings: issuer.settings(address, SESSION_MS),
      javaFlags: issuer.javaFlags,
    });
  });
  afterAll(async () => {
    await cluster?.stop();
    await issuer?.[Symbol.asyncDispose]();
  });

  /** With a scope of its own, so that tests do not share their tokens. */
  const login = (more: Partial<BearerLogin> = {}): KafkaConnection => ({
    brokers: [address],
    sasl: {
      mechanism: 'oauthbearer',
      endpoint: { ...issuer.endpoint(), scope: `kafka ${crypto.randomUUID()}` },
      ...more,
    },
  });
  const ask = async (client: KafkaClient, connection: KafkaConnection, topic: string): Promise<number> => {
    const admin = client.admin(connection);
    try {
      return await admin.partitions(topic);
    } finally {
      await admin.close();
    }
  };
  const failureOf = async (work: Promise<unknown>): Promise<SluiceError> => {
    const error: unknown = await work.then(
      () => new Error('nothing failed'),
      (e: unknown) => e,
    );
    expect(error).toBeInstanceOf(SluiceError);
    expect((error as Error).message).not.toMatch(/eyJ|sec\+ret/);
    return error as SluiceError;
  };

  for (const client of CLIENTS) {
    test(`${client.name}: a token of the endpoint, a token of a file, extensions`, async () => {
      const topic = await cluster.createTopic(`login-${client.name}`, 3);
      expect(await ask(client, login(), topic)).toBe(3);
      const file = path.join(cluster.folder, `token-${client.name}`);
      writeFileSync(file, `${issuer.token()}\n`);
      const connection = { brokers: [address], sasl: { mechanism: 'oauthbearer', token: { file } } } as const;
      expect(await ask(client, connection, topic)).toBe(3);
    });

    test(`${client.name}: what the issuer or the broker refuses is said in words`, async () => {
      const topic = await cluster.createTopic(`refused-${client.name}`);
      issuer.claims = { aud: 'somebody-else' };
      const refused = await failureOf(ask(client, login(), topic)).finally(() => {
        issuer.claims = {};
      });
      expect([refused.code, refused.message]).toEqual([
        'kafka_authentication',
        expect.stringContaining('the broker rejects the token (invalid_token)'),
      ]);
      process.env.SLUICE_TEST_WRONG_SECRET = 'sec+ret-wrong';
      const endpoint = { ...issuer.endpoint(), clientSecret: { env: 'SLUICE_TEST_WRONG_SECRET' } };
      const stranger = await failureOf(ask(client, login({ endpoint }), topic));
      expect([stranger.code, stranger.message]).toEqual([
        'kafka_authentication',
        expect.stringContaining('rejects the client: status 401 invalid_client'),
      ]);
      const [nobody] = await freePorts(1);
      const gone = { ...issuer.endpoint(), url: `http://127.0.0.1:${nobody}/token` };
      const away = await failureOf(ask(client, login({ endpoint: gone }), topic));
      expect([away.code, away.message]).toEqual([
        'kafka_token_unavailable',
        expect.stringMatching(/returns no token: ECONNREFUSED/),
      ]);
    });

    campaignTest(
      `${client.name}: under load sessions and tokens end and the issuer is away, and nobody notices; a new key loses nothing`,
      async () => {
        const seconds = times('token seconds', { quick: 12, check: 15, campaigns: 120 });
        const name = `load-${client.name}`;
        const [input, output] = await Promise.all([
          cluster.createTopic(`${name}-in`, 4),
          cluster.createTopic(`${name}-out`, 4),
        ]);
        issuer.lifetime = 8;
        const settings: WorkerSettings = {
          connection: login(),
          topic: input,
          group: name,
          outputTopic: output,
          deadLetterTopic: null,
          sessionTimeoutMs: 10_000,
          batchRows: 50,
          transactionRows: 50,
          workMs: 1,
          delivery: client.transactionalWriter ? 'exactly_once' : 'at_least_once',
        };
        const crew = [settings, settings].map((s) => new Worker(client.name, s));
        try {
          await Promise.all(crew.map((w) => w.ready));
          const given = issuer.given;
          let sent = 0;
          const load = async (ms: number) => {
            const end = performance.now() + ms;
            for (let round = 0; performance.now() < end; round++) {
              issuer.status = round % 40 > 34 ? 503 : 200;
              await produce(cluster, input, numbered(50, 4, sent));
              sent += 50;
              // The broker measures how long a token lasts: records must come all that time.
              await sleep(100);
            }
            issuer.status = 200;
            await until(async () => (await committed(cluster, name, input)) >= sent, `${sent} records`);
          };
          // Until the second member has its partitions, and the broker its coordinator, transactions are given up for other reasons.
          await load(1000);
          for (const worker of crew) worker.forget();
          await load(seconds * 1000);
          expect(issuer.given).toBeGreaterThan(given);
          // On a busy machine kafkajs, which renews on the connection it has, may be late.
          if (client.name !== 'kafkajs') expect(crew.flatMap((w) => w.troubles)).toEqual([]);
          // The brokers learn of the key by refusing the first tokens that are signed with it, for longer than such a session lasts.
          issuer.changeKey();
          await load(2 * SESSION_MS);
          const seen = await readTopic(cluster, output);
          const keys = new Set(seen.map((r) => r.key)).size;
          expect(keys).toBe(sent);
          if (client.transactionalWriter) expect(seen).toHaveLength(sent);
        } finally {
          issuer.status = 200;
          issuer.lifetime = 60;
          await Promise.all(crew.map((w) => w.end()));
        }
      },
    );
  }
});

/** A member in a process of its own, with the client of that name. */
class Worker {
  readonly ready: Promise<unknown>;
  #words = '';
  readonly #child: ChildProcess;

  constructor(client: string, settings: WorkerSettings) {
    this.#child = fork(path.join(import.meta.dirname, 'chaos/worker.ts'), [JSON.stringify(settings)], {
      env: { ...process.env, SLUICE_KAFKA_CLIENT: client, CHAOS_VERBOSE: '1' },
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    });
    this.#child.stderr!.on('data', (d: Buffer) => {
      this.#words += d;
    });
    this.ready = once(this.#child, 'message', { signal: AbortSignal.timeout(PATIENCE_MS) });
  }

  /** What it said beside taking partitions over. */
  get troubles(): string[] {
    return this.#words.split('\n').filter((line) => line !== '' && !/^\d+ (assigned|fence) /.test(line));
  }

  forget(): void {
    this.#words = '';
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await ended;
  }
}
