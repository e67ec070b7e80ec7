// The names of objects as inputs and outputs of runs, `s3://bucket/key`: apart from what talks to storage, which runs of files must not load.
import { SluiceError } from '../core/errors.ts';

export const isObject = (name: string): boolean => name.startsWith('s3://');

export interface ObjectAddress {
  bucket: string;
  key: string;
}

/** @throws SluiceError usage */
export function objectAddress(name: string): ObjectAddress {
  const [, bucket, key] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,62})\/(.+)$/s.exec(name) ?? [];
  if (bucket !== undefined && key !== undefined) return { bucket, key };
  throw new SluiceError('usage', `${name} is not of the form s3://bucket/key`);
}
