// Keys for object storage: where they are looked for and in which order, renewed before they end, and clear words where there are none.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import { ObjectUpload } from '../../src/storage/object-upload.ts';
import { renewed } from '../../src/storage/s3/renewed-credentials.ts';
import { s3Credentials } from '../../src/storage/s3/s3-credentials.ts';
import { AwsEndpoints } from '../support/aws-endpoints.ts';
import { scratch } from '../support/cli.ts';
import { controlClock } from '../support/controlled-clock.ts';
import { checkTest } from '../support/tiers.ts';
import { eventually } from '../support/until.ts';

const NOWHERE = path.resolve('no-such-folder/credentials');
/** Nothing of the machine that the test runs on. */
const bare = { AWS_SHARED_CREDENTIALS_FILE: NOWHERE, AWS_EC2_METADATA_DISABLED: 'true' };
const ROLE = 'arn:aws:iam::123456789012:role/scoring';

const lookUp = (env: Record<string, string>) =>
  s3Credentials({ ...bare, ...env }, { region: 'eu-central-1', code: 'storage_unavailable' });
/** The id of the keys found, or the code and the words. */
const found = async (env: Record<string, string>): Promise<string> => {
  try {
    return (await lookUp(env)()).accessKeyId;
  } catch (error) {
    return error instanceof SluiceError ? `${error.code}: ${error.message}` : `unexpected ${error}`;
  }
};
async function endpoints(): Promise<AwsEndpoints> {
  const aws = await AwsEndpoints.open();
  onTestFinished(() => aws[Symbol.asyncDispose]());
  return aws;
}
function fileWith(text: string): string {
  const file = path.join(scratch(), 'said');
  writeFileSync(file, text);
  return file;
}
const webIdentity = (aws: AwsEndpoints, tokenFile: string) => ({
  AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile,
  AWS_ROLE_ARN: ROLE,
  AWS_ENDPOINT_URL_STS: aws.url,
});

test('by web identity: the token is read again for each renewal, and the role is named', async () => {
  const aws = await endpoints();
  const file = fileWith('first-token');
  const keys = lookUp(webIdentity(aws, file));
  expect(await keys()).toMatchObject({ accessKeyId: 'AKIA0', secretAccessKey: 'secret', sessionToken: 'token-0' });
  expect((await keys()).accessKeyId).toBe('AKIA0');
  writeFileSync(file, 'second-token');
  expect((await keys('renew')).accessKeyId).toBe('AKIA1');
  expect(aws.calls).toEqual(
    ['first-token', 'second-token'].map((by) => ({ what: `AssumeRoleWithWebIdentity ${ROLE}`, by })),
  );
});

test('to a container: with the token of a file, read again, or of the environment', async () => {
  const aws = await endpoints();
  const file = fileWith('Bearer one');
  const uri = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${aws.url}/v1/credentials` };
  const keys = lookUp({ ...uri, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file });
  expect((await keys()).accessKeyId).toBe('AKIA0');
  writeFileSync(file, 'Bearer two');
  await keys('renew');
  expect(await found({ ...uri, AWS_CONTAINER_AUTHORIZATION_TOKEN: 'three' })).toBe('AKIA2');
  expect(aws.calls.map((c) => c.by)).toEqual(['Bearer one', 'Bearer two', 'three']);
});

test('to an instance: a session first, then its role, then keys; not where it is disabled', async () => {
  const aws = await endpoints();
  vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', aws.url);
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await found({ AWS_EC2_METADATA_DISABLED: 'false' })).toBe('AKIA0');
  expect(aws.calls.map((c) => c.what)).toEqual(['IMDS token', 'IMDS', 'IMDS']);
  expect(await found({})).toMatch(/^storage_unavailable: no credentials: neither \$AWS_ACCESS_KEY_ID/);
  expect(aws.calls).toHaveLength(3);
  vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', 'http://127.0.0.1:9');
  expect(await found({ AWS_EC2_METADATA_DISABLED: '' })).toMatch(
    /nor from the metadata service .*: it does not answer$/,
  );
});

test('what is said goes before what is there: keys, a named profile, web identity, the file, a container', async () => {
  const aws = await endpoints();
  const section = (name: string) => `[${name}]\naws_access_key_id = of-${name}\naws_secret_access_key = s\n`;
  const file = { AWS_SHARED_CREDENTIALS_FILE: fileWith(section('default') + section('other')) };
  const container = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${aws.url}/v1/credentials` };
  const identity = webIdentity(aws, fileWith('t'));
  const keys = { AWS_ACCESS_KEY_ID: 'said', AWS_SECRET_ACCESS_KEY: 's' };
  const all = { ...container, ...file, ...identity };
  expect(await found({ ...all, AWS_PROFILE: 'other', ...keys })).toBe('said');
  expect(await found({ ...all, AWS_PROFILE: 'other' })).toBe('of-other');
  expect(await found({ ...container, ...file })).toBe('of-default');
  expect(aws.calls).toEqual([]);
  expect(await found(all)).toBe('AKIA0');
  expect(await found({ ...container, AWS_SHARED_CREDENTIALS_FILE: fileWith(section('other')) })).toBe('AKIA1');
  expect(aws.calls.map((c) => c.what.split(' ')[0])).toEqual(['AssumeRoleWithWebIdentity', 'container']);
});

checkTest('whoever lends no keys is named, with the reason', async () => {
  const aws = await endpoints();
  const identity = webIdentity(aws, fileWith('a-secret-token'));
  const container = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${aws.url}/v1/credentials` };
  aws.refusal = [400, '<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>No provider for this issuer</Message></Error></ErrorResponse>']; // biome-ignore format: one line
  const cases: [Record<string, string>, RegExp][] = [
    [identity, /^storage_unavailable: .*web identity for the role arn:\S+ InvalidIdentityToken.*: No provider for this issuer$/],
    [{ ...identity, AWS_ROLE_ARN: '' }, /^usage: \$AWS_WEB_IDENTITY_TOKEN_FILE needs \$AWS_ROLE_ARN/],
    [{ ...identity, AWS_ENDPOINT_URL_STS: 'sts' }, /^usage: \$AWS_ENDPOINT_URL_STS is not an http/],
    [{ ...identity, AWS_WEB_IDENTITY_TOKEN_FILE: NOWHERE }, /^storage_unavailable: .*ENOENT/],
    [{ ...identity, AWS_ENDPOINT_URL_STS: 'http://127.0.0.1:9' }, /^storage_unavailable: .*ECONNREFUSED/],
    [{ AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://keys.example.com/x' }, /^storage_unavailable: .*of the container.*HTTPS/],
    [container, /^storage_unavailable: no credentials of the container from \S+: .*400/],
  ]; // biome-ignore format: a row each
  const said = await Promise.all(cases.map(([env]) => found(env)));
  for (const [i, words] of said.entries()) {
    expect(words).toMatch(cases[i]![1]);
    expect(words).not.toContain('a-secret-token');
  }
});

test('renewed ahead of their end without anybody waiting, kept where that fails, and never used after it', async () => {
  let [now, asked] = [0, 0];
  let answer: () => Promise<void> = async () => {};
  const lend = async () => {
    const nth = asked++;
    await answer();
    return { accessKeyId: `k${nth}`, secretAccessKey: 's', expiration: new Date(now + 3600_000) };
  };
  const keys = renewed(lend, () => now);
  const id = async () => (await keys()).accessKeyId;
  expect(await Promise.all([id(), id()])).toEqual(['k0', 'k0']);
  now = 3600_000 - 300_001;
  expect([await id(), asked]).toEqual(['k0', 1]);
  // The last five minutes: a renewal that takes long, and then fails, keeps nobody.
  now += 2;
  const held = Promise.withResolvers<void>();
  answer = () => held.promise;
  expect([await id(), await id(), asked]).toEqual(['k0', 'k0', 2]);
  held.reject(new Error('down'));
  await eventually(async () => expect([await id(), asked]).toEqual(['k0', 2]));
  now += 10_001;
  answer = async () => {};
  expect([await id(), asked]).toEqual(['k0', 3]);
  await eventually(async () => expect(await id()).toBe('k2'));
  // Over: nobody gets what ended, everybody the failure.
  now += 3600_000;
  answer = () => Promise.reject(new Error('down'));
  await expect(id()).rejects.toThrow('down');
  answer = async () => {};
  expect(await id()).toBe('k4');
});

test('a short life is not asked for at every call', async () => {
  let [now, asked] = [0, 0];
  const keys = renewed(
    async () => ({ accessKeyId: `k${asked++}`, secretAccessKey: 's', expiration: new Date(now + 60_000) }),
    () => now,
  );
  for (; now < 39_000; now += 1000) await keys();
  expect(asked).toBe(1);
});

checkTest('keys that end, and keys that are revoked, during a long upload: it goes on with others', async () => {
  const clock = controlClock({ runs: true });
  const aws = await endpoints();
  const file = fileWith('t');
  const env = { ...bare, ...webIdentity(aws, file), AWS_ENDPOINT_URL: aws.url, AWS_ACCESS_KEY_ID: '', AWS_PROFILE: undefined }; // biome-ignore format: one line
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  const part = (byte: number) => Buffer.alloc(8 * 1024 * 1024, byte);
  const partsBy = () => aws.calls.filter((c) => /^PUT part/.test(c.what)).map((c) => `${c.what.slice(9)} ${c.by}`);
  aws.life = 600_000;
  const upload = new ObjectUpload('s3://a-long-upload/scored.csv');
  await upload.write(part(1));
  await eventually(() => expect(partsBy()).toEqual(['1 AKIA0']));
  // Past their end: the next part is signed with others.
  await clock.advance(600_001);
  aws.life = 3600_000;
  await upload.write(part(2));
  await eventually(() => expect(partsBy()).toEqual(['1 AKIA0', '2 AKIA1']));
  // Before their end: the part that is refused is sent again.
  aws.revoked.add('AKIA1');
  await upload.write(part(3));
  await upload.end();
  expect(partsBy()).toEqual(['1 AKIA0', '2 AKIA1', '3 AKIA1', '3 AKIA2']);
  await upload.publish();
  expect(aws.objects.get('/a-long-upload/scored.csv')!.equals(Buffer.concat([part(1), part(2), part(3)]))).toBe(true);
  // Nobody lends others: what was refused is told.
  aws.refusal = [403, '<ErrorResponse><Error><Code>AccessDenied</Code><Message>gone</Message></Error></ErrorResponse>'];
  aws.revoked.add('AKIA2');
  const later = new ObjectUpload('s3://a-long-upload/other.csv');
  await later.write(part(1)).catch(() => {});
  await expect(later.end()).rejects.toThrow(/web identity for the role \S+ AccessDenied/);
});
