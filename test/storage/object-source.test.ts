// Objects as they are read: the whole, ranges of it, and texts, whatever becomes of the memory they came in.
import { expect, onTestFinished, test, vi } from 'vitest';
import { storedBytes, storedSize, storedText } from '../../src/connectors/stored-bytes.ts';
import { Random } from '../../src/core/random.ts';
import { openObject } from '../../src/storage/object-source.ts';
import { AwsEndpoints } from '../support/aws-endpoints.ts';

test('all of it, any range, and a text of megabytes; the memory of what was consumed is free', async () => {
  await using aws = await AwsEndpoints.open();
  const env = { AWS_ENDPOINT_URL: aws.url, AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b', AWS_SESSION_TOKEN: 'c' };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  onTestFinished(() => void vi.unstubAllEnvs());
  aws.lent.push({ id: 'a', token: 'c', expiresAt: Infinity });
  const text = Array.from({ length: 300_000 }, (_, i) => `line ${i} ü`).join('\n');
  const bytes = Buffer.from(text);
  const name = 's3://objects-as-read/large.txt';
  aws.objects.set('/objects-as-read/large.txt', bytes);

  expect(await storedSize(name)).toBe(bytes.length);
  expect(await storedSize('s3://objects-as-read/none.txt')).toBe(null);
  expect(await storedText('s3://objects-as-read/none.txt')).toBe(null);
  expect((await storedText(name)) === text).toBe(true);
  const kept: Uint8Array[] = [];
  const copies: Uint8Array[] = [];
  for await (const chunk of storedBytes(name)) {
    kept.push(chunk);
    copies.push(Uint8Array.from(chunk));
  }
  expect(Buffer.concat(copies).equals(bytes)).toBe(true);
  expect(kept.filter((chunk) => chunk.length === 0).length).toBeGreaterThan(kept.length / 2);

  const source = await openObject(name);
  const random = new Random();
  random.seed(5, 1);
  const at = () => Math.floor(random.uniform() * bytes.length);
  const ranges = Array.from({ length: 40 }, () => [at(), at()].sort((a, b) => a - b) as [number, number]);
  ranges.push([0, bytes.length], [bytes.length - 1, bytes.length], [7, 7]);
  const slices = await Promise.all(ranges.map(([from, to]) => source.slice(from, to)));
  for (const [i, [from, to]] of ranges.entries()) expect(bytes.subarray(from, to).equals(slices[i]!)).toBe(true);
  await source.close();
});
