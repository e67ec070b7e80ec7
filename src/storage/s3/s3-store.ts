// Buckets of S3 and of compatible servers, configured in the same way as for the AWS tools.
import { httpAddress } from '../http-client.ts';
import { STORE_CALLS } from '../object-store.ts';
import { S3Client } from './s3-client.ts';
import { s3Credentials } from './s3-credentials.ts';

/** Opens a bucket. @throws SluiceError usage if the endpoint is not an address */
export function openS3(bucket: string, env: NodeJS.ProcessEnv): S3Client {
  const region = env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? 'us-east-1';
  const configured = env.AWS_ENDPOINT_URL_S3 ?? env.AWS_ENDPOINT_URL;
  return new S3Client({
    ...STORE_CALLS,
    name: `s3://${bucket}`,
    endpoint: httpAddress('$AWS_ENDPOINT_URL', configured ?? `https://s3.${region}.amazonaws.com`),
    bucket,
    region,
    pathStyle: configured !== undefined,
    credentials: s3Credentials(env, { region, caFile: env.AWS_CA_BUNDLE, code: STORE_CALLS.code }),
    caFile: env.AWS_CA_BUNDLE,
  });
}
