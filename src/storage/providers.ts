// The providers of object storage, and names of objects.
// The code of a provider is loaded on demand, because runs of local files do not need it.
import { SluiceError } from '../core/errors.ts';
import type { ObjectStore } from './object-store.ts';

interface Provider {
  /** The form of object names, for messages. */
  form: string;
  bucket: RegExp;
  /** Opens a bucket. @throws SluiceError usage if a setting in the environment is invalid */
  open(bucket: string, env: NodeJS.ProcessEnv): Promise<ObjectStore>;
}

/** Providers by URL scheme. To add a provider, create its folder and add an entry here. */
const PROVIDERS: Readonly<Record<string, Provider>> = {
  s3: { form: 's3://bucket/key', bucket: /^[a-z0-9][a-z0-9.-]{1,62}$/, open: async (bucket, env) => (await import('./s3/s3-store.ts')).openS3(bucket, env) }, // biome-ignore format: one line
  az: { form: 'az://container/blob', bucket: /^[a-z0-9$][a-z0-9-]{2,62}$/, open: async (container, env) => (await import('./azure/azure-store.ts')).openAzure(container, env) }, // biome-ignore format: one line
  gs: { form: 'gs://bucket/object', bucket: /^[a-z0-9][a-z0-9._-]{1,221}$/, open: async (bucket, env) => (await import('./gcs/gcs-store.ts')).openGcs(bucket, env) }, // biome-ignore format: one line
};

const providerOf = (name: string): Provider | undefined => {
  const scheme = name.slice(0, Math.max(0, name.indexOf('://')));
  return Object.hasOwn(PROVIDERS, scheme) ? PROVIDERS[scheme] : undefined;
};

export const isObject = (name: string): boolean => providerOf(name) !== undefined;

interface ObjectAddress {
  scheme: string;
  bucket: string;
  key: string;
}

/** Parses the name of an object. @throws SluiceError usage */
export function objectAddress(name: string): ObjectAddress {
  const [, scheme, bucket, key] = /^(\w+):\/\/([^/]+)\/(.+)$/s.exec(name) ?? [];
  const provider = providerOf(name);
  if (provider && scheme !== undefined && key !== undefined && provider.bucket.test(bucket!)) {
    return { scheme, bucket: bucket!, key };
  }
  const form = provider?.form ?? Object.values(PROVIDERS).map((p) => p.form).join(', '); // biome-ignore format: one line
  throw new SluiceError('usage', `${name} is not of the form ${form}`);
}

/** The opened stores by scheme and bucket. All code of the process shares their connections and credentials. */
const stores = new Map<string, Promise<ObjectStore>>();

/** The store of an object, and its key. @throws SluiceError usage */
export async function storeOf(name: string): Promise<{ store: ObjectStore; key: string }> {
  const { scheme, bucket, key } = objectAddress(name);
  const id = `${scheme}://${bucket}`;
  let opened = stores.get(id);
  if (!opened) {
    opened = PROVIDERS[scheme]!.open(bucket, process.env);
    stores.set(id, opened);
    opened.catch(() => stores.delete(id));
  }
  return { store: await opened, key };
}
