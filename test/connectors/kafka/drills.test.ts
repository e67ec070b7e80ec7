// What a pager sees: one thing is wrong at a time, with `sluice run` as it is deployed, and the first sentences say what to grant or mend.
import { cpSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AclEntry } from 'kafkajs';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scratch, start } from '../../support/cli.ts';
import { someApplications } from '../../support/kafka/applications.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, produce } from '../../support/kafka/topics.ts';
import { freePorts } from '../../support/ports.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import { campaignTest } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const PASSWORD = 'pass-word-of-the-drill';
/** Kafka's numbers. */
const RESOURCE = { topic: 2, group: 3, transactional_id: 5 } as const;
const OPERATION = { READ: 3, WRITE: 4, DESCRIBE: 8, DESCRIBE_CONFIGS: 10 } as const;
const [LITERAL, PREFIXED, ALLOW] = [3, 4, 3];

type Grant = [kind: keyof typeof RESOURCE, name: string, operation: keyof typeof OPERATION];

interface Drill {
  what: string;
  /** One of each kind, which `npm run check` tries; campaigns try all. */
  sample?: true;
  /** Left out of what the pipeline is granted. */
  denied?: (grant: Grant) => boolean;
  /** Changes the file. */
  file?: (yaml: string, place: Place) => string;
  /** Before the start. */
  before?: (place: Place) => Promise<unknown>;
  /** Once it has answered ten records. */
  during?: (place: Place) => Promise<unknown>;
  says: RegExp;
  /** It goes on when this is mended; default: it ends with 1. */
  mended?: (place: Place) => Promise<unknown>;
}

interface Place {
  name: string;
  input: string;
  output: string;
  letters: string;
  cluster: KafkaCluster;
  registry: string;
  secured: string;
  folder: string;
  link: Link;
}

/** The way to the secured listener, which can be cut; what is told there is as the broker says it. */
class Link {
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();
  up = true;

  constructor(target: number) {
    this.#server = net.createServer((near) => {
      if (!this.up) return void near.destroy();
      const far = net.connect(target, '127.0.0.1');
      for (const s of [near, far]) {
        this.#sockets.add(s);
        s.on('close', () => this.#sockets.delete(s)).on('error', () => s.destroy());
      }
      near.pipe(far).pipe(near);
    });
  }

  async open(port: number): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(port, '127.0.0.1', resolve));
  }

  cut(): void {
    this.up = false;
    for (const s of this.#sockets) s.destroy();
  }

  close(): void {
    this.cut();
    this.#server.close();
  }
}

const DRILLS: Drill[] = [
  { what: 'no READ on the input', sample: true, denied: ([k, n, o]) => k === 'topic' && n === 'in' && o === 'READ', says: /READ\b.* on the topic .*-in/ },
  { what: 'no DESCRIBE on the input', denied: ([k, n]) => k === 'topic' && n === 'in', says: /READ\b.* on the topic .*-in/ },
  { what: 'no READ on the group', denied: ([k]) => k === 'group', says: /READ on the group drill-/ },
  { what: 'no WRITE on the output', denied: ([k, n, o]) => k === 'topic' && n === 'out' && o === 'WRITE', says: /WRITE\b.* on the topic .*-out/ },
  { what: 'no right on the output', denied: ([k, n]) => k === 'topic' && n === 'out', says: /WRITE\b.* on the topic .*-out/ },
  { what: 'no right on the dead letters', denied: ([k, n]) => k === 'topic' && n === 'dlq', says: /WRITE\b.* on the topic .*-dlq/ },
  { what: 'no WRITE on the transactional id', sample: true, denied: ([k]) => k === 'transactional_id', says: /WRITE\b.* on the transactional ids that begin with drill-\d+-/ },
  { what: 'no READ on the group of the retries', before: (p) => p.cluster.createTopic(`${p.name}-r`, 2), file: retrying, says: /READ on the group drill-\d+-retry/ },
  { what: 'the retry topic is not there', file: retrying, says: /topic drill-.*-r does not exist/ },
  { what: 'the input is not there', file: (y, p) => y.replace(p.input, `${p.input}-x`), says: /topic .*-in-x does not exist/ },
  { what: 'the output is not there', sample: true, file: (y, p) => y.replace(p.output, `${p.output}-x`), says: /topic .*-out-x does not exist/ },
  { what: 'the dead letter topic is not there', file: (y, p) => y.replace(p.letters, `${p.letters}-x`), says: /topic .*-dlq-x does not exist/ },
  { what: 'the topic of a route is not there', file: (y, p) => y.replace(`topic: ${p.output}`, `topic: ${p.output}, routes: [{ decision: decline, topic: ${p.name}-b }]`), says: /topic drill-.*-b does not exist/ },
  { what: 'the input is deleted', during: (p) => drop(p, p.input), says: /topic .*-in does not exist/ },
  { what: 'the output is deleted', during: (p) => drop(p, p.output), says: /topic .*-out does not exist/ },
  { what: 'WRITE on the output is taken away', sample: true, during: (p) => revoke(p, 'out', 'WRITE'), says: /WRITE\b.* on the topic .*-out/ },
  { what: 'a wrong password', sample: true, file: (y) => y.replace('DRILL_PASSWORD', 'DRILL_WRONG'), says: /password|credentials|SASL/i },
  { what: 'an authority that is not known', file: (y) => y.replace(/ca_file: [^}]*/, ''), says: /certificate/i },
  { what: 'plaintext to a TLS port', file: (y) => y.replace(/ {2}tls: .*\n/, ''), says: /does it expect TLS/ },
  { what: 'no broker at the start', file: (y, p) => y.replace(p.secured, '127.0.0.1:9'), says: /127\.0\.0\.1:9/ },
  { what: 'the broker goes away', sample: true, during: async (p) => p.link.cut(), says: /no broker answers at|Connection error/, mended: async (p) => { p.link.up = true; } }, // biome-ignore format: one line
  { what: 'the schema registry is down', before: (p) => produce(p.cluster, p.input, [{ key: 'framed', value: Buffer.from([0, 0, 0, 0, 7, 1]) }]), file: (y, p) => `${y.replace('format: json', 'format: avro')}schema_registry: { url: "${p.registry}", timeout_ms: 1000 }\n`, says: /schema registry is unreachable/ },
  { what: 'the model is not there', file: (y) => y.replace('model: credit-default', 'model: nobody'), says: /nobody/ },
  { what: 'the model is damaged', before: (p) => damage(p), says: /model_hash_mismatch|not the one/ },
]; // biome-ignore format: a table

function retrying(yaml: string, { name, letters }: Place): string {
  return yaml.replace(
    `topic: ${letters} }`,
    `topic: ${letters}, retry: { topic: ${name}-r, codes: [unseen_category] } }`,
  );
}

async function drop({ cluster, name, input }: Place, topic: string): Promise<void> {
  await (await cluster.admin()).deleteTopics({ topics: [topic] });
  if (topic !== input) await produce(cluster, input, someApplications().slice(0, 5).map((a, i) => ({ key: `${name}${i}`, value: JSON.stringify(a) })));
} // biome-ignore format: one line

async function revoke({ cluster, name, input }: Place, end: string, operation: keyof typeof OPERATION): Promise<void> {
  await (await cluster.admin()).deleteAcls({
    filters: [{ resourceType: RESOURCE.topic, resourceName: `${name}-${end}`, resourcePatternType: LITERAL, operation: OPERATION[operation], permissionType: ALLOW, principal: 'User:sluice', host: '*' }],
  }); // biome-ignore format: one line
  await produce(cluster, input, someApplications().slice(0, 5).map((a, i) => ({ key: `r${i}`, value: JSON.stringify(a) })));
} // biome-ignore format: one line

async function damage({ folder }: Place): Promise<void> {
  const file = path.join(folder, 'registry/credit-default/1/model.onnx');
  writeFileSync(file, Buffer.from('damaged'));
}

requireKafka('drills', () => {
  let cluster: KafkaCluster;
  let secured: string;
  let target: number;
  let registry: http.Server;
  let ca: string;
  beforeAll(async () => {
    const [inner, outer] = await freePorts(2);
    target = inner!;
    secured = `127.0.0.1:${outer}`;
    const cert = await generate([{ name: 'commonName', value: 'broker.test' }], {
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
    });
    const oneLine = (pem: string) => pem.trim().replaceAll(/\r?\n/g, '\\n');
    cluster = await KafkaCluster.start({
      settings: (own) => ({
        listeners: `${own.listeners},LOGIN://127.0.0.1:${inner}`,
        'advertised.listeners': `${own['advertised.listeners']},LOGIN://${secured}`,
        'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL',
        'sasl.enabled.mechanisms': 'PLAIN',
        'listener.name.login.plain.sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required user_sluice="${PASSWORD}";`,
        'ssl.keystore.type': 'PEM',
        'ssl.keystore.certificate.chain': oneLine(cert.cert),
        'ssl.keystore.key': oneLine(cert.private),
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'super.users': 'User:ANONYMOUS',
      }),
    });
    ca = path.join(cluster.folder, 'ca.pem');
    writeFileSync(ca, cert.cert);
    registry = http.createServer((_request, response) => response.writeHead(503).end());
    await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve));
  });
  afterAll(async () => {
    registry?.close();
    await cluster?.stop();
  });

  for (const [i, drill] of DRILLS.entries()) {
    const drillTest = drill.sample ? test : campaignTest;
    drillTest(drill.what, async () => {
      const name = `drill-${i}`;
      const folder = scratch();
      cpSync(CREDIT_DEFAULT, path.join(folder, 'registry/credit-default/1'), { recursive: true });
      const [input, output, letters] = await Promise.all(
        ['in', 'out', 'dlq'].map((end) => cluster.createTopic(`${name}-${end}`, 2)),
      );
      const link = new Link(target);
      await link.open(Number(secured.split(':')[1]));
      const { port } = registry.address() as net.AddressInfo;
      const place: Place = { name, input: input!, output: output!, letters: letters!, cluster, registry: `http://127.0.0.1:${port}`, secured, folder, link }; // biome-ignore format: one line
      const applications = someApplications();
      const feed = (from: number) =>
        produce(
          cluster,
          input!,
          Array.from({ length: 10 }, (_, k) => ({ key: `k${from + k}`, value: JSON.stringify(applications[k]) })),
        );
      const grants: Grant[] = [
        ['topic', 'in', 'READ'], ['topic', 'in', 'DESCRIBE'],
        ...['out', 'dlq'].flatMap((end): Grant[] => [['topic', end, 'WRITE'], ['topic', end, 'DESCRIBE']]),
        ['topic', 'r', 'READ'], ['topic', 'r', 'WRITE'],
        ...['in-x', 'out-x', 'dlq-x', 'b'].map((end): Grant => ['topic', end, 'DESCRIBE']),
        ['group', name, 'READ'],
        ['transactional_id', `${name}-`, 'WRITE'],
      ]; // biome-ignore format: a table
      const acl = grants
        .filter((grant) => !drill.denied?.(grant))
        .map(([kind, end, operation]): AclEntry => ({
          principal: 'User:sluice', host: '*', permissionType: ALLOW, operation: OPERATION[operation], resourceType: RESOURCE[kind],
          resourceName: kind === 'topic' ? `${name}-${end}` : end,
          resourcePatternType: kind === 'transactional_id' ? PREFIXED : LITERAL,
        })); // biome-ignore format: a table
      await (await cluster.admin()).createAcls({ acl });
      await feed(0);
      await drill.before?.(place);
      const yaml = `model: credit-default
source: { type: kafka, topic: ${input}, group: ${name}, format: json }
sink: { type: kafka, topic: ${output} }
dead_letter: { type: kafka, topic: ${letters} }
score: { workers: 1 }
kafka:
  brokers: ["${secured}"]
  session_timeout_ms: 6000
  tls: { ca_file: ${ca} }
  sasl: { mechanism: plain, username: sluice, password: { env: DRILL_PASSWORD } }
`;
      const file = path.join(folder, 'pipeline.yaml');
      writeFileSync(file, drill.file?.(yaml, place) ?? yaml);
      const env = { DRILL_PASSWORD: PASSWORD, DRILL_WRONG: 'wrong', NODE_EXTRA_CA_CERTS: '' };
      let began = performance.now();
      const running = start(['run', file, '--registry', path.join(folder, 'registry')], { env });
      let words = '';
      running.child.stderr!.on('data', (d: string) => {
        words += d;
      });
      let over = false;
      running.child.on('exit', () => {
        over = true;
      });
      try {
        if (drill.during) {
          await until(async () => over || (await committed(cluster, name, input!).catch(() => 0)) >= 10, 'ten answers');
          words = '';
          began = performance.now();
          await drill.during(place);
        }
        const patience = 240_000;
        while (!over && !drill.says.test(words) && performance.now() - began < patience) await sleep(50);
        expect(words).toMatch(drill.says);
        expect(words).not.toMatch(/^ +at /m);
        expect(words).not.toContain(PASSWORD);
        if (drill.mended) {
          await drill.mended(place);
          await feed(10);
          await until(async () => over || (await committed(cluster, name, input!)) >= 20, 'the next ten answers');
          expect(over, words).toBe(false);
          running.child.kill('SIGTERM');
          expect((await running.done).code).toBe(0);
        }
      } finally {
        link.close();
        if (!over) running.child.kill('SIGKILL');
        await running.done;
      }
    });
  }
});
