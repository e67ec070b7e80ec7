// Connector for names with the scheme of an object store, which are accepted wherever a file path is.
// It has no source or sink type.
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
