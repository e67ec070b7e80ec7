// Object storage: names with the scheme of a provider, accepted wherever the path of a file is. It is not a source or
// sink type of its own.
import { isObject } from '../../storage/providers.ts';
import type { Connector } from '../contract/connector.ts';

export const OBJECT_STORAGE = {
  capabilities: { reads: null, writes: null, takes: [], transact: false, withhold: true },
  page: 'object-storage.md',
  options: {},
  nameOf: () => 'object storage',
  serves: isObject,
  transport: async () => (await import('./object-transport.ts')).OBJECT_TRANSPORT,
} satisfies Connector;
