// Object storage, for names with the scheme of a provider; accepted wherever a file path is, without its own source or sink type.
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
