// Connector for standard input and standard output.
import type { Connector } from '../contract/connector.ts';
import { STDIO_ENDS, type StdioSink, type StdioSource } from './stdio-options.ts';

/** The name that means standard input or standard output. */
export const STDIO = '-';

export const STANDARD_STREAMS = {
  capabilities: {
    reads: 'bytes',
    writes: 'bytes',
    takes: ['bytes', 'rows'],
    transact: false,
    withhold: false,
  },
  page: 'input.md',
  options: STDIO_ENDS,
  lint: async (pipeline, say) => (await import('./stdio-lint.ts')).lintStandardStreams(pipeline, say),
  nameOf: () => STDIO,
  formatOf: ({ format }: StdioSource | StdioSink) => format,
  isPattern: () => false,
  inputs: async () => [STDIO],
  output: () => ({ path: STDIO, otherwise: 'ndjson' }),
} satisfies Connector;
