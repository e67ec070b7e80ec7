// Buckets of S3 and of servers with its API, configured as the tools of AWS are.
import { SluiceError } from '../../core/errors.ts';
import { S3Client } from './s3-client.ts';
import { s3Credentials } from './s3-credentials.ts';

const RETRIES = 4;
const TIMEOUT_MS = 20_000;

/** @throws SluiceError usage: the endpoint is no address */
export function openS3(bucket: string, env: NodeJS.ProcessEnv): S3Client {
  const region = env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? 'us-east-1';
  const configured = env.AWS_ENDPOINT_URL_S3 ?? env.AWS_ENDPOINT_URL;
  const endpoint = URL.parse(configured ?? `https://s3.${region}.amazonaws.com`);
  if (!endpoint || !/^https?:$/.test(endpoint.protocol)) {
    throw new SluiceError('usage', '$AWS_ENDPOINT_URL is no http:// or https:// address');
  }
  return new S3Client({
    name: `s3://${bucket}`,
    code: 'storage_unavailable',
    endpoint,
    bucket,
    region,
    pathStyle: configured !== undefined,
    credentials: s3Credentials(env, { region, caFile: env.AWS_CA_BUNDLE, code: 'storage_unavailable' }),
    timeoutMs: TIMEOUT_MS,
    retries: RETRIES,
    caFile: env.AWS_CA_BUNDLE,
  });
}
