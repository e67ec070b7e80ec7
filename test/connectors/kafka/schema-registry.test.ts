// The client of the schema registry, against Apicurio: registered, found, refused in words, logged in to, over TLS, and gone.
import { generate } from 'selfsigned';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SluiceError } from '../../../src/core/errors.ts';
import { readAvro } from '../../../src/formats/avro/avro-values.ts';
import { readProtobuf } from '../../../src/formats/protobuf/protobuf-values.ts';
import { SchemaRegistry } from '../../../src/formats/schemas/schema-registry.ts';
import { PATIENCE_MS } from '../../support/patience.ts';
import { Gate } from '../../support/registries/gate.ts';
import { installApicurio } from '../../support/registries/install.ts';
import { requireServer } from '../../support/registries/require.ts';
import { Server } from '../../support/registries/servers.ts';

const avro = (fields: object[], name = 'App') =>
  ({ type: 'AVRO', text: JSON.stringify({ type: 'record', name, namespace: 'bank', fields }) }) as const;
const failure = (work: Promise<unknown>): Promise<SluiceError> =>
  work.then(
    () => expect.unreachable('nothing failed'),
    (e: unknown) => {
      expect(e).toBeInstanceOf(SluiceError);
      return e as SluiceError;
    },
  );

await requireServer('the schema registry', installApicurio, (folder) => {
  let server: Server;
  let api: string;
  beforeAll(async () => {
    server = await Server.apicurio(folder);
    api = server.url.href;
  });
  afterAll(() => server?.[Symbol.asyncDispose]());
  /** Registers as a pipeline of somebody else does. */
  const put = async (subject: string, body: object): Promise<number> => {
    const answer = await fetch(`${api}/subjects/${subject}/versions`, {
      method: 'POST',
      headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
      body: JSON.stringify(body),
    });
    expect(answer.status).toBe(200);
    return ((await answer.json()) as { id: number }).id;
  };

  test('a schema is registered once, found by its text, its id and its version; what nobody registered is said to be missing', async () => {
    const registry = new SchemaRegistry({ url: api });
    const schema = avro([{ name: 'a', type: 'int' }]);
    const missing = await failure(registry.find('once-value', schema));
    expect([missing.code, missing.message]).toEqual([
      'kafka_config',
      expect.stringMatching(/not registered under once-value.*`sluice lint --schema` prints it/),
    ]);
    const id = await registry.register('once-value', schema);
    expect(await registry.register('once-value', schema)).toBe(id);
    expect(await registry.find('once-value', schema)).toBe(id);
    expect(JSON.parse((await registry.byId(id))!.text)).toEqual(JSON.parse(schema.text));
    expect(await registry.byVersion('once-value', 'latest')).toMatchObject({ type: 'AVRO' });
    expect(await registry.byId(1_000_000)).toBeNull();
    expect(await registry.byVersion('nobody', 1)).toBeNull();
  });

  test('a schema that does not fit earlier versions is refused in words', async () => {
    const registry = new SchemaRegistry({ url: api });
    await fetch(`${api}/config`, {
      method: 'PUT',
      headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
      body: '{"compatibility":"BACKWARD"}',
    });
    await registry.register('fit-value', avro([{ name: 'a', type: 'int' }]));
    const refused = await failure(registry.register('fit-value', avro([{ name: 'b', type: 'string' }])));
    expect([refused.code, refused.message]).toEqual([
      'kafka_config',
      expect.stringContaining('incompatible with earlier versions'),
    ]);
  });

  test('schemas come with those they refer to', async () => {
    const registry = new SchemaRegistry({ url: api });
    await put('money', { schema: avro([{ name: 'minor', type: 'long' }], 'Money').text });
    const id = await put('refers-value', {
      schema: avro([{ name: 'income', type: 'bank.Money' }]).text,
      references: [{ name: 'bank.Money', subject: 'money', version: 1 }],
    });
    expect(JSON.parse(readAvro((await registry.byId(id))!, null)(Buffer.from([14]))(new Set()).toString())).toEqual({
      income: { minor: 7 },
    });
    await put('grade.proto', {
      schemaType: 'PROTOBUF',
      schema: 'syntax = "proto3"; package c; enum Grade { A = 0; B = 1; }',
    });
    const proto = await put('proto-value', {
      schemaType: 'PROTOBUF',
      schema: 'syntax = "proto3"; package bank; import "grade.proto"; message App { c.Grade grade = 1; int64 n = 2; }',
      references: [{ name: 'grade.proto', subject: 'grade.proto', version: 1 }],
    });
    const read = readProtobuf((await registry.byId(proto))!);
    expect(JSON.parse(read(Buffer.from([0, 8, 1]))(new Set()).toString())).toEqual({ grade: 'B', n: '0' });
  });

  test('basic and bearer logins, asked for at every request, over TLS with an authority of its own', async () => {
    const pems = await generate([{ name: 'commonName', value: 'registry' }], {
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
    });
    await using gate = await Gate.open(new URL(server.url.origin), { tls: { key: pems.private, cert: pems.cert } });
    let wanted = 'Bearer first';
    gate.rule = ({ headers }) => (headers.authorization === wanted ? 'pass' : 401);
    let token = 'first';
    const url = `${gate.url.origin}${server.url.pathname}`;
    const registry = new SchemaRegistry({ url, tls: { ca: pems.cert }, authorization: async () => `Bearer ${token}` });
    const schema = avro([{ name: 'a', type: 'int' }]);
    const id = await registry.register('tls-value', schema);
    wanted = 'Bearer second';
    expect((await failure(registry.register('tls-value', schema))).message).toContain('rejects the login (401)');
    token = 'second';
    expect(await registry.register('tls-value', schema)).toBe(id);
    const stranger = await failure(new SchemaRegistry({ url, authorization: async () => null }).byId(id));
    expect([stranger.code, stranger.message]).toEqual([
      'schema_registry_unavailable',
      expect.stringMatching(/certificate/i),
    ]);
  });

  test('an answer that fails is asked for again; a registry that is gone is told, and nothing is kept of it', async () => {
    await using gate = await Gate.open(new URL(server.url.origin));
    const url = `${gate.url.origin}${server.url.pathname}`;
    const registry = new SchemaRegistry({ url, timeoutMs: PATIENCE_MS });
    const schema = avro([{ name: 'a', type: 'int' }]);
    const fates = [503, 'cut', 'pass'] as const;
    let call = 0;
    gate.rule = () => fates[Math.min(call++, 2)]!;
    const id = await registry.register('again-value', schema);
    expect(call).toBe(3);
    gate.rule = () => 'cut';
    expect((await failure(registry.byId(id))).code).toBe('schema_registry_unavailable');
    gate.up();
    expect(await registry.byId(id)).toMatchObject({ type: 'AVRO' });
  });
});
