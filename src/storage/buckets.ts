// Clients of the buckets that runs read and write, with the settings that the tools of object storage have.
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import { objectAddress } from './objects.ts';
import { S3Client } from './s3-client.ts';
import { s3Credentials } from './s3-credentials.ts';

/** A call is tried again this often. */
const RETRIES = 4;
const TIMEOUT_MS = 20_000;

/** Clients by bucket: connections and credentials are those of the process. */
const clients = new Map<string, S3Client>();

/** @throws SluiceError usage: the endpoint is no address */
export function bucketClient(bucket: string, env: NodeJS.ProcessEnv = process.env): S3Client {
  const known = clients.get(bucket);
  if (known) return known;
  const region = env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? 'us-east-1';
  const said = env.AWS_ENDPOINT_URL_S3 ?? env.AWS_ENDPOINT_URL;
  const endpoint = URL.parse(said ?? `https://s3.${region}.amazonaws.com`);
  if (!endpoint || !/^https?:$/.test(endpoint.protocol)) {
    throw new SluiceError('usage', '$AWS_ENDPOINT_URL is no http:// or https:// address');
  }
  const client = new S3Client({
    name: `s3://${bucket}`,
    code: 'storage_unavailable',
    endpoint,
    bucket,
    region,
    pathStyle: said !== undefined,
    credentials: s3Credentials(env, { region, caFile: env.AWS_CA_BUNDLE, code: 'storage_unavailable' }),
    timeoutMs: TIMEOUT_MS,
    retries: RETRIES,
    caFile: env.AWS_CA_BUNDLE,
  });
  clients.set(bucket, client);
  return client;
}

/** The objects that a pattern means, in the order of their keys. @throws SluiceError storage_unavailable | usage */
export async function matchingObjects(pattern: string): Promise<string[]> {
  const { bucket, key } = objectAddress(pattern);
  const fixed = key.slice(0, key.search(/[*?[]/));
  const { objects } = await bucketClient(bucket).list(fixed);
  const matching = objects.map((o) => o.key).filter((k) => !k.endsWith('/') && path.posix.matchesGlob(k, key));
  return matching.sort().map((k) => `s3://${bucket}/${k}`);
}
