// Connector for files. Paths with the scheme of an object store are read and written by the object storage connector.
import { SluiceError } from '../../core/errors.ts';
import { isPattern } from '../../core/file-names.ts';
import { namedFormat } from '../../formats/formats.ts';
import type { Connector, Matching } from '../contract/connector.ts';
import { FILE_ENDS, type FileSink, type FileSource } from './file-options.ts';

export const FILE = {
  capabilities: {
    reads: 'bytes',
    writes: 'bytes',
    takes: ['bytes', 'rows', 'records', 'requests'],
    transact: false,
    withhold: true,
  },
  page: 'input.md',
  options: FILE_ENDS,
  lint: async (pipeline, say) => (await import('./file-lint.ts')).lintFiles(pipeline, say),
  nameOf: ({ path }: FileSource | FileSink) => path,
  // A path without an extension means CSV.
  formatOf: ({ path, format }: FileSource | FileSink) =>
    format ?? (isPattern(path) ? null : (namedFormat(path).format ?? 'csv')),
  transport: async () => (await import('./file-transport.ts')).FILE_TRANSPORT,
  isPattern: ({ path }: FileSource) => isPattern(path),
  inputs,
  output: ({ path }: FileSink) => ({ path, otherwise: 'csv' }),
} satisfies Connector;

/**
 * @throws SluiceError input_not_found | usage if control totals are given for several inputs, although they describe a
 * single input
 */
async function inputs(
  { path, expect }: FileSource,
  choose: (names: readonly string[]) => string[],
  matching: Matching,
): Promise<readonly string[]> {
  if (!isPattern(path)) return [path];
  const names = choose(await matching(path));
  if (names.length > 1 && expect) throw new SluiceError('usage', 'expect: control totals apply to a single input');
  return names.sort();
}
