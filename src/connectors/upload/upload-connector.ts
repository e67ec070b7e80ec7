// Connector for uploads to the service: a pipeline with this source becomes an operation of `sluice serve`.
import type { Connector } from '../contract/connector.ts';
import { UPLOAD_ENDS, type UploadSource } from './upload-options.ts';

export const UPLOAD = {
  capabilities: { reads: 'requests', writes: null, takes: [], transact: true, withhold: false },
  page: 'pipelines.md',
  options: UPLOAD_ENDS,
  nameOf: () => 'upload',
  formatOf: ({ format }: UploadSource) => format,
} satisfies Connector;
