// Object storage: names with the scheme of a provider, wherever the path of a file is accepted. It is no type of source or sink by itself.
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
