// Content of a manifest: the files of a run, its model and options, and the versions of the programs that wrote the
// output.

import { createHash, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { storedBytes, storedText } from '../../connectors/stored-bytes.ts';
import { SluiceError } from '../../core/errors.ts';
import { manifestNameOf } from '../../core/file-names.ts';
import { fileFault } from '../../core/file-system.ts';
import { ONNXRUNTIME_VERSION, VERSION } from '../../core/version.ts';
import type { RunCounts } from '../../engine/counts.ts';
import { blockBytesOf } from '../../engine/score-chunks.ts';
import { DELIMITERS } from '../../formats/delimited/header.ts';
import { isColumnar, isDelimited } from '../../formats/formats.ts';
import type { CommitSet } from '../../io/sink/commit-set.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import { hashedFiles } from '../../model/package/package-hash.ts';
import { type BlockRange, FileDigest } from '../../proof/block-digests.ts';
import type { JsonValue } from '../../proof/canonical-json.ts';
import { readKey } from '../../proof/envelope.ts';
import type { Predicate, ProvenBlock, ProvenFile } from '../../proof/statement.ts';
import type { Endpoint } from '../endpoint-specs.ts';
import type { FileRunSpec, FilesOnlySpec } from '../spec.ts';

/** Keys of a spec that do not affect the output, or that the manifest stores elsewhere. */
const WITHOUT_EFFECT = new Set([
  'path',
  'workers',
  'batch_rows',
  'batch_wait_ms',
  // Control totals do not affect the output; they are only compared with the input.
  'expect',
  'control',
  'done_file',
]);

/**
 * The blocks of a rejects file. A block without rejected rows is merged into the next block that has some. `start`,
 * `end`: byte range of the blocks; the bytes outside this range belong to other inputs.
 */
export function listBlocks(
  blocks: readonly Pick<ProvenBlock, 'rows' | 'list'>[],
  start: number,
  end: number,
): BlockRange[] {
  const others = (to: number): BlockRange => ({ end: to, rows: 0, digest: null });
  const ranges = start > 0 ? [others(start)] : [];
  let rows = 0;
  for (const { rows: more, list } of blocks) {
    rows += more;
    if (!list) continue;
    ranges.push({ ...list, rows });
    rows = 0;
  }
  if ((ranges.at(-1)?.end ?? 0) < end) ranges.push(others(end));
  return ranges;
}

/** Versions of the programs that wrote the output. */
export const RUNTIME = { sluice: VERSION, node: process.versions.node, onnxruntime: ONNXRUNTIME_VERSION } as const;

export const provenRows = ({
  rows,
  scored,
  rejected,
  rejectedByCode,
}: Pick<RunCounts, 'rows' | 'scored' | 'rejected' | 'rejectedByCode'>): Predicate['rows'] => ({
  read: rows,
  scored,
  rejected,
  skipped: 0,
  rejected_by_code: rejectedByCode as Record<string, number>,
});

export const modelOf = ({ ref, sha256, files }: ModelPackage): Predicate['model'] => ({
  ref,
  package_sha256: sha256,
  files: hashedFiles(files).map((file) => ({ name: file.name, sha256: file.sha256 })),
});

/** Adds the manifest to the set that publishes its output. @throws SluiceError output_* */
export async function addManifest(set: CommitSet, output: string, text: string): Promise<void> {
  const sink = await set.open(manifestNameOf(output), { beside: true });
  await sink.write(Buffer.from(text));
  await sink.commit();
}

/** Loads the signing key. Call this function before anything is scored. @throws SluiceError usage */
export async function signKeyOf(spec: Pick<FileRunSpec, 'sign_key'>): Promise<KeyObject | null> {
  const file = spec.sign_key ?? process.env.SLUICE_SIGN_KEY;
  if (!file) return null;
  const pem = await readFile(file, 'utf8').catch((cause) => {
    throw new SluiceError('usage', `the key ${file} cannot be read: ${fileFault(cause)}`, { cause });
  });
  return readKey(pem, 'private', file);
}

/** Whether a run writes a manifest next to this output. */
export const isProven = (spec: Pick<FileRunSpec, 'manifest' | 'shard'>, output: Endpoint | null): output is Endpoint =>
  spec.manifest !== false && !spec.shard && output !== null && output.name !== STDIO;

export const provenFile = (name: string, stored: ProvenFile['stored']): ProvenFile => ({
  name: name === STDIO ? 'stdin' : path.basename(name),
  stored,
});

/** Settings that change the output, or decide whether it is published, as keys of a pipeline. */
export function optionsOf(spec: FileRunSpec, input: Endpoint, output: Endpoint): Predicate['options'] {
  const { source, sink, score, on_invalid, allow_empty, gate } = spec as FilesOnlySpec;
  const plain = (part: object): { [key: string]: JsonValue | undefined } =>
    JSON.parse(JSON.stringify(Object.fromEntries(Object.entries(part).filter(([key]) => !WITHOUT_EFFECT.has(key)))));
  return {
    source: { ...plain(source), ...formatOf(input) },
    sink: { ...plain(sink), ...formatOf(output) },
    score: plain(score),
    on_invalid,
    allow_empty: allow_empty ?? false,
    gate,
    block_bytes: blockBytesIn(spec, isColumnar(input.format)),
  };
}

export const blockBytesIn = ({ tuning }: Pick<FileRunSpec, 'tuning'>, isTable: boolean): number =>
  tuning?.blockBytes ?? blockBytesOf(isTable);

/** `delimiter` is undefined for formats without a delimiter. */
export function formatOf({ format, compression, delimiter }: Pick<Endpoint, 'format' | 'compression' | 'delimiter'>) {
  const name = Object.entries(DELIMITERS).find(([, mark]) => mark === delimiter)?.[0];
  return { format, compression, delimiter: isDelimited(format) ? name : undefined };
}

/** Digests a file or object that the run did not read from start to end. */
export async function digestOf(file: string): Promise<ProvenFile['stored']> {
  const digest = new FileDigest();
  for await (const chunk of storedBytes(file)) digest.add(chunk);
  return digest.digest;
}

/** SHA-256 of the existing manifest; null if there is none. @throws SluiceError output_failed: it cannot be read */
export async function previousOf(file: string): Promise<string | null> {
  const text = await storedText(file).catch((cause) => {
    if (cause instanceof SluiceError) throw cause;
    throw new SluiceError('output_failed', `the earlier manifest ${file} cannot be read: ${fileFault(cause)}`, {
      cause,
    });
  });
  return text === null ? null : createHash('sha256').update(text).digest('hex');
}
