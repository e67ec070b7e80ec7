// The pipeline of docs/pipelines.md with TLS, SCRAM and a schema registry, run as it stands there, with the permissions of its table.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import avro from 'avsc';
import type { AclEntry } from 'kafkajs';
import { generate } from 'selfsigned';
import { expect, test } from 'vitest';
import { headOf, schemaIdOf } from '../../../src/formats/schemas/framing.ts';
import { SchemaRegistry } from '../../../src/formats/schemas/schema-registry.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { scratch, sluiceHere, start } from '../../support/cli.ts';
import { someApplications } from '../../support/kafka/applications.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { committed, eachRecord, produce } from '../../support/kafka/topics.ts';
import { freePorts } from '../../support/ports.ts';
import { Gate } from '../../support/registries/gate.ts';
import { installApicurio } from '../../support/registries/install.ts';
import { requireServer } from '../../support/registries/require.ts';
import { Server } from '../../support/registries/servers.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import { until } from '../../support/until.ts';

const PASSWORD = 'pass-word-of-the-page';
const REGISTRY_PASSWORD = 'other word';
const TOPICS = ['loan-applications', 'loan-predictions', 'loan-applications-rejected'] as const;
const ROWS = 60;

/** The rows of the table of permissions, as the page has them: what they are on, and the permissions. */
const permissions = (page: string): string[][] =>
  page
    .slice(page.indexOf('| on | permission |'))
    .split('\n\n')[0]!
    .split('\n')
    .slice(2)
    .map((line) => line.split('|').map((cell) => cell.trim()).slice(1, 3)); // biome-ignore format: one chain

/** Kafka's numbers. */
const [TOPIC, GROUP, TRANSACTIONAL_ID, LITERAL, PREFIXED, ALLOW] = [2, 3, 5, 3, 4, 3];
const OPERATIONS = { READ: 3, WRITE: 4 } as const;

/** What the table grants to a pipeline without retries, delivered exactly once. */
function grantsOf(page: string): AclEntry[] {
  const grant = (resourceType: number, resourceName: string, operation: number, pattern = LITERAL): AclEntry => ({
    principal: 'User:scoring', host: '*', permissionType: ALLOW!, operation, resourceType, resourceName, resourcePatternType: pattern!,
  }); // biome-ignore format: one line
  return permissions(page).flatMap(([on, permission]) => {
    const operation = OPERATIONS[permission!.split(' ')[0] as keyof typeof OPERATIONS];
    if (on === 'the source') return [grant(TOPIC!, TOPICS[0], operation)];
    if (on!.startsWith('topics of the sink')) return TOPICS.slice(1).map((topic) => grant(TOPIC!, topic, operation));
    if (on!.startsWith('the group')) return [grant(GROUP!, 'scoring', operation)];
    if (on!.startsWith('transactional ids')) return [grant(TRANSACTIONAL_ID!, 'scoring-', operation, PREFIXED)];
    return [];
  });
}

await requireServer('the secured pipeline of the page', installApicurio, (installed) => {
  requireKafka('with a broker', () => {
    test('logs in everywhere, reads and writes Avro, and needs no other permission than the page says', async () => {
      const page = readFileSync('docs/pipelines.md', 'utf8');
      const folder = scratch();
      const pems = await generate([{ name: 'commonName', value: 'page' }], {
        extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
      });
      const [port] = await freePorts(1);
      const address = `127.0.0.1:${port}`;
      await using server = await Server.apicurio(installed);
      await using gate = await Gate.open(new URL(server.url.origin), { tls: { key: pems.private, cert: pems.cert } });
      const basic = `Basic ${Buffer.from(`scoring:${REGISTRY_PASSWORD}`).toString('base64')}`;
      gate.rule = ({ headers }) => (headers.authorization === basic ? 'pass' : 401);
      await using cluster = await securedCluster(address, pems);
      for (const topic of TOPICS) await cluster.createTopic(topic, 2);
      const acl = grantsOf(page);
      expect(acl).toHaveLength(5);
      await (await cluster.admin()).createAcls({ acl });

      const applications = someApplications().slice(0, ROWS);
      const schema = {
        type: 'record', name: 'Application', namespace: 'bank',
        fields: Object.keys(applications[0]!).map((name) => ({ name, type: ['null', 'string'] })),
      } as const; // biome-ignore format: one line
      const registry = new SchemaRegistry({ url: server.url.href });
      const id = await registry.register('loan-applications-value', { type: 'AVRO', text: JSON.stringify(schema) });
      const type = avro.Type.forSchema(schema as unknown as avro.Schema, { wrapUnions: false });
      const messages = applications.map((a, i) => ({
        key: `k${i}`,
        value: Buffer.concat([headOf(id), type.toBuffer(a)]),
        partition: i % 2,
      }));
      await produce(cluster, TOPICS[0], [...messages, { key: 'bad', value: Buffer.from('{}'), partition: 0 }]);

      const example = /```yaml\n(# secured\.yaml[\s\S]*?)```/.exec(page)![1]!;
      mkdirSync(path.join(folder, 'etc'));
      writeFileSync(path.join(folder, 'etc/ca.pem'), pems.cert);
      writeFileSync(path.join(folder, 'etc/password'), `${REGISTRY_PASSWORD}\n`);
      const file = path.join(folder, 'secured.yaml');
      writeFileSync(
        file,
        example
          .replace(/\[kafka-1.*\]/, `["${address}"]`)
          .replaceAll(/\/etc\/(kafka|registry)\//g, 'etc/')
          .replace('https://registry.example.com', gate.url.origin),
      );
      cpSync(CREDIT_DEFAULT, path.join(folder, 'models/credit-default/1'), { recursive: true });
      await new FolderRegistry([path.join(folder, 'models')]).moveAlias('credit-default', 'champion', '1', 'test');
      const options = { cwd: folder, env: { KAFKA_PASSWORD: PASSWORD } };
      const dry = await sluiceHere(['run', file, '--dry-run'], options);
      expect([dry.code, dry.stderr, dry.stdout]).toEqual([0, '', expect.stringMatching(/10 records tried: 10 scored/)]);
      const running = start(['run', file], options);
      try {
        await until(async () => (await committed(cluster, 'scoring', TOPICS[0]).catch(() => 0)) > ROWS, 'all records');
      } finally {
        running.child.kill('SIGTERM');
        expect(await running.done).toMatchObject({ code: 0 });
      }
      const answers: Buffer[] = [];
      await eachRecord(cluster, TOPICS[1], ({ value }) => answers.push(value!));
      expect(answers).toHaveLength(ROWS);
      const written = await registry.byVersion('loan-predictions-value', 'latest');
      expect(await registry.byId(schemaIdOf(answers[0]!)!)).toEqual(written);
      const codes: string[] = [];
      await eachRecord(cluster, TOPICS[2], ({ headers }) => codes.push(String(headers!['sluice-error-code'])));
      expect(codes).toEqual(['malformed_avro']);
    });
  });
});

/** A listener with TLS, SCRAM and permissions; the plain one is that of the tests themselves. */
async function securedCluster(address: string, pems: { private: string; cert: string }): Promise<KafkaCluster> {
  const oneLine = (pem: string) => pem.trim().replaceAll(/\r?\n/g, '\\n');
  const cluster = await KafkaCluster.start({
    settings: (own) => ({
      listeners: `${own.listeners},LOGIN://${address}`,
      'advertised.listeners': `${own['advertised.listeners']},LOGIN://${address}`,
      'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL',
      'sasl.enabled.mechanisms': 'SCRAM-SHA-512',
      'listener.name.login.scram-sha-512.sasl.jaas.config':
        'org.apache.kafka.common.security.scram.ScramLoginModule required;',
      'ssl.keystore.type': 'PEM',
      'ssl.keystore.certificate.chain': oneLine(pems.cert),
      'ssl.keystore.key': oneLine(pems.private),
      'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
      'super.users': 'User:ANONYMOUS',
    }),
  });
  await cluster.addScramUser('scoring', PASSWORD, 512);
  return cluster;
}
