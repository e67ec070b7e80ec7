// Verifies an output against its manifest, offline. Checks the manifest, the output, its rejects file and, on request,
// the input and the package.

import type { KeyObject } from 'node:crypto';
import path from 'node:path';
import { isQuery } from '../../connectors/connectors.ts';
import type { FileSource } from '../../connectors/file/file-options.ts';
import { besideStored, storedBytes, storedText } from '../../connectors/stored-bytes.ts';
import { asSluiceError, SluiceError } from '../../core/errors.ts';
import { manifestNameOf } from '../../core/file-names.ts';
import { fileFault } from '../../core/file-system.ts';
import type { RowRange } from '../../engine/score-chunks.ts';
import type { DELIMITERS } from '../../formats/delimited/header.ts';
import { isColumnar } from '../../formats/formats.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import { hashedFiles, hashFolder } from '../../model/package/package-hash.ts';
import { type BlockRange, type ChangedBlocks, type Located, locateChanges } from '../../proof/block-digests.ts';
import { unseal } from '../../proof/envelope.ts';
import { type Predicate, type ProvenName, predicateOf } from '../../proof/statement.ts';
import { plainOf } from '../byte-ends.ts';
import type { Endpoint } from '../endpoint-specs.ts';
import { endpoint } from '../endpoint-specs.ts';
import { openSource } from '../endpoints.ts';
import { digestOf } from '../plugins/manifest-content.ts';

interface VerifyOptions {
  output: string;
  /** Path of the input; null if the input is not checked. */
  input: string | null;
  /** Path of the rejects file. Null means the name in the manifest, in the folder of the output. */
  list: string | null;
  /** Folder of the package; null if the package is not checked. */
  package: string | null;
  /** The key that must have signed the manifest. Null accepts any signature, and also an unsigned manifest. */
  key: KeyObject | null;
  /** The name under which the output was written. Default: its current name. */
  writtenAs?: string;
}

/** One difference between a file and its manifest. */
interface ProofFinding {
  file: ProvenName | 'package' | 'manifest';
  /**
   * changed: a block differs; inserted: there are bytes between blocks; content: the whole file differs; stored: the
   * content is equal, but was compressed again.
   */
  kind: 'changed' | 'inserted' | 'content' | 'stored' | 'missing' | 'name';
  /** First and last row of the block, from 1; null if the finding does not concern rows. */
  range: readonly [number, number] | null;
  /** Uncompressed byte range of the block, end exclusive; null if the finding does not concern rows. */
  bytes: readonly [number, number] | null;
  /** The rows in `range` that changed, if they could be determined. */
  rows: readonly number[];
  /** Message of the finding. */
  text: string;
}

export interface Verified {
  whole: boolean;
  findings: ProofFinding[];
  /** The items that were checked. */
  checked: ProofFinding['file'][];
  /** Null if the manifest cannot be trusted. */
  predicate: Predicate | null;
  signedBy: string[];
}

/** Reads the manifest of an output. @throws SluiceError manifest_invalid */
export async function readManifest(
  output: string,
  key: KeyObject | null,
): Promise<{ predicate: Predicate; signedBy: string[] }> {
  const file = manifestNameOf(output);
  const text = await storedText(file).catch((cause) => {
    throw new SluiceError('manifest_invalid', `${file} cannot be read: ${fileFault(cause)}`, { cause });
  });
  if (text === null) throw new SluiceError('manifest_invalid', `${output} has no manifest: ${file} does not exist`);
  const { statement, signedBy } = unseal(text, key);
  try {
    return { predicate: predicateOf(statement), signedBy };
  } catch (cause) {
    throw asSluiceError(cause, 'manifest_invalid');
  }
}

/** Verifies an output. A damaged or missing file is a finding, not an error. */
export async function verifyOutput(options: VerifyOptions): Promise<Verified> {
  let read: Awaited<ReturnType<typeof readManifest>>;
  try {
    read = await readManifest(options.output, options.key);
  } catch (error) {
    const { message } = asSluiceError(error, 'manifest_invalid');
    const findings = [finding('manifest', 'content', message)];
    return { whole: false, findings, checked: ['manifest'], predicate: null, signedBy: [] };
  }
  const { predicate, signedBy } = read;
  const findings: ProofFinding[] = [];
  const checked: ProofFinding['file'][] = ['manifest'];
  const { output, list } = predicate;
  const name = options.writtenAs ?? path.basename(options.output);
  // Without this check, a signed output of another day would pass as this one.
  if (output.name !== name) {
    const text = `output: the manifest describes ${output.name}, not ${name} (use --written-as for a renamed file)`;
    findings.push(finding('output', 'name', text));
  }
  const listName = options.list ?? (list && besideStored(options.output, list.name));
  const ends: Record<ProvenName, Endpoint | null> = {
    output: outputEnd(predicate, options.output),
    list: list && listName !== null ? { name: listName, format: 'csv', compression: 'none', delimiter: ',' } : null,
    input: options.input === null ? null : inputEnd(predicate, options.input),
  };
  const changed: FileChanges[] = [];
  for (const file of ['output', 'list', 'input'] as const) {
    const at = ends[file];
    if (at === null) continue;
    checked.push(file);
    const found = await changesOf(file, at, predicate);
    if ('kind' in found) findings.push(found);
    else if (!found.isWhole) changed.push(found);
  }
  if (options.package !== null) {
    checked.push('package');
    findings.push(...(await verifyPackageFiles(options.package, predicate)));
  }
  const isSamePackage = options.package !== null && !findings.some(({ file }) => file === 'package');
  const naming =
    isSamePackage && ends.input ? { folder: options.package!, predicate, ends: { ...ends, input: ends.input } } : null;
  for (const changes of changed) findings.push(...(await changeFindings(changes, changed, naming)));
  findings.sort((a, b) => ORDER.indexOf(a.file) - ORDER.indexOf(b.file));
  return { whole: findings.length === 0, findings, checked, predicate, signedBy };
}

const ORDER: readonly ProofFinding['file'][] = ['manifest', 'output', 'list', 'input', 'package'];

const finding = (
  file: ProofFinding['file'],
  kind: ProofFinding['kind'],
  text: string,
  where: Partial<Pick<ProofFinding, 'range' | 'bytes' | 'rows'>> = {},
): ProofFinding => ({ file, kind, range: null, bytes: null, rows: [], ...where, text });

/** How a file differs from its manifest. */
interface FileChanges extends Located {
  file: ProvenName;
  at: Endpoint;
  isWhole: boolean;
  /** Length of the content in bytes, as it was written. */
  end: number;
}

async function changesOf(file: ProvenName, at: Endpoint, predicate: Predicate): Promise<FileChanges | ProofFinding> {
  const { stored } = predicate[file]!;
  try {
    if ((await sha256Of(at.name)) === stored.sha256) {
      return { file, at, isWhole: true, end: 0, changed: [], unreadable: null };
    }
    if (predicate.blocks === null) {
      const earlier = 'the manifest is of an earlier release, so that its blocks cannot be compared';
      return finding(file, 'content', `${file}: the file was changed; ${earlier}`);
    }
    const located = await locateChanges(() => contentOf(at), predicate.blocks[file]);
    const end = predicate.blocks[file].at(-1)?.end ?? 0;
    if (located.changed.length > 0 || located.unreadable !== null) return { file, at, isWhole: false, end, ...located };
    if (at.compression === 'none' && !at.declared?.encoding)
      return finding(file, 'content', `${file}: the file was changed`);
    return finding(file, 'stored', `${file}: the file was compressed or encoded again, but its rows are unchanged`);
  } catch (error) {
    const { code, message } = asSluiceError(error, 'input_unreadable');
    return finding(file, code === 'input_not_found' ? 'missing' : 'content', `${file}: ${message}`);
  }
}

/** The content that blocks refer to: uncompressed bytes in UTF-8. */
async function* contentOf(at: Endpoint): AsyncGenerator<Uint8Array> {
  if (isColumnar(at.format)) {
    yield* await plainOf(storedBytes(at.name), at.compression);
    return;
  }
  const source = await openSource(at);
  try {
    yield* source.chunks;
  } finally {
    await source.close();
  }
}

/** Inputs for scoring the rows of changed blocks again. */
interface Naming {
  folder: string;
  predicate: Predicate;
  ends: Record<ProvenName, Endpoint | null> & { input: Endpoint };
}

async function changeFindings(
  { file, at, changed, unreadable, end }: FileChanges,
  all: readonly FileChanges[],
  naming: Naming | null,
): Promise<ProofFinding[]> {
  const findings: ProofFinding[] = [];
  let why = unreadable === null ? null : asSluiceError(unreadable, 'input_unreadable').message;
  for (const change of changed) {
    const { from, to, first, last } = change;
    const where = { range: last < first ? null : ([first, last] as const), bytes: [from, to] as const };
    const what = placeOf(change, at);
    if (why !== null && to === end) {
      findings.push(finding(file, 'changed', `${file}: ${what} cannot be read: ${why}`, where));
      why = null;
    } else if (from === to) {
      findings.push(finding(file, 'inserted', `${file}: bytes were inserted at ${what}`, where));
    } else {
      const { rows, text } = await namedRows(file, change, all, naming);
      findings.push(finding(file, 'changed', `${file}: ${what} changed${text}`, { ...where, rows }));
    }
  }
  if (why !== null) findings.push(finding(file, 'content', `${file}: it cannot be read to its end: ${why}`));
  return findings;
}

function placeOf({ from, to, first, last }: ChangedBlocks, { compression }: Endpoint): string {
  const bytes = compression === 'none' ? 'byte' : 'uncompressed byte';
  if (from === to) return `${bytes} ${from}, before row ${first}`;
  const place = `${bytes}s ${from} to ${to - 1}`;
  if (last < first) return `${place}, around the rows,`;
  return `${first === last ? `row ${first}` : `the block of rows ${first} to ${last}`} (${place})`;
}

/** Maximum length of a change that is compared row by row, in bytes. */
const MOST_COMPARED_BYTES = 64 * 1024 * 1024;
/** Maximum number of rows that a message lists. */
const MOST_LISTED = 10;

/** The changed rows of a block, and the text to append to the message of the finding. */
async function namedRows(
  file: ProvenName,
  change: ChangedBlocks,
  all: readonly FileChanges[],
  naming: Naming | null,
): Promise<{ rows: number[]; text: string }> {
  const { from, to, first, last, movedBefore, movedBehind } = change;
  if (last < first) return { rows: [], text: '' };
  if (naming === null)
    return { rows: [], text: first === last ? '' : '; to list the changed rows, pass --input and --package' };
  const { predicate, ends, folder } = naming;
  // Scoring a changed input again proves nothing, unless only the input changed.
  const isInputChanged = all.some((changes) => changes.file === 'input');
  if ((isInputChanged && (all.length > 1 || movedBefore !== movedBehind)) || isQuery(predicate.options.source))
    return { rows: [], text: '' };
  try {
    if (to - from > MOST_COMPARED_BYTES) throw new SluiceError('limit_exceeded', 'too many bytes changed');
    const { changedListRows, changedTableRows, changedTextRows } = await import('./changed-rows.ts');
    const output = ends.output!;
    const options = { predicate, model: await modelIn(folder), input: ends.input, output };
    const rows = { first, last };
    const actual = async (): Promise<Buffer> => {
      if (file !== 'input') return bytesOf(contentOf(ends[file]!), from + movedBefore, to + movedBehind);
      return bytesOf(contentOf(output), ...bytesOfRows(predicate.blocks!.output, rows));
    };
    let changed: number[];
    if (file === 'list') changed = await changedListRows(options, rows, await actual());
    else if (isColumnar(output.format)) changed = await changedTableRows(options, rows);
    else changed = await changedTextRows(options, rows, await actual());
    return { rows: changed, text: `; ${differing(changed)}` };
  } catch (error) {
    return { rows: [], text: `; its rows could not be compared: ${asSluiceError(error, 'internal_error').message}` };
  }
}

/** Byte range of the blocks that contain the given rows; `to` is exclusive. */
function bytesOfRows(blocks: readonly BlockRange[], { first, last }: RowRange): [from: number, to: number] {
  let [row, start, from, to] = [1, 0, -1, 0];
  for (const { end, rows } of blocks) {
    if (rows > 0 && row <= last && row + rows > first) {
      if (from < 0) from = start;
      to = end;
    }
    row += rows;
    start = end;
  }
  return [Math.max(0, from), to];
}

const differing = (rows: readonly number[]): string => {
  if (rows.length === 0) return 'scored again, its rows have the same values';
  const listed = rows.slice(0, MOST_LISTED).join(', ');
  const more = rows.length > MOST_LISTED ? ` and ${rows.length - MOST_LISTED} more` : '';
  return `scored again, ${rows.length === 1 ? `row ${listed} differs` : `rows ${listed}${more} differ`}`;
};

async function modelIn(folder: string): Promise<ModelPackage> {
  const { loadPackage } = await import('../../model/package/load-package.ts');
  return loadPackage(folder);
}

/** Bytes `from`..`to - 1` of chunks. */
async function bytesOf(chunks: AsyncIterable<Uint8Array>, from: number, to: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let at = 0;
  for await (const chunk of chunks) {
    if (at + chunk.length > from) parts.push(Buffer.from(chunk.subarray(Math.max(0, from - at), Math.max(0, to - at))));
    at += chunk.length;
    if (at >= to) break;
  }
  return Buffer.concat(parts);
}

const sha256Of = async (name: string): Promise<string> => {
  try {
    return (await digestOf(name)).sha256;
  } catch (cause) {
    throw new SluiceError('input_not_found', `${name} cannot be read: ${fileFault(cause)}`, { cause });
  }
};

interface EndOptions {
  format?: Endpoint['format'];
  compression?: Endpoint['compression'];
  delimiter?: keyof typeof DELIMITERS;
}

/** The output to read, under its current name. That name may differ from the one in the manifest. */
export function outputEnd({ options, output }: Predicate, name: string): Endpoint {
  return { ...endpoint(output.name, options.sink as EndOptions, 'csv'), name };
}

export function inputEnd({ options, input }: Predicate, name: string): Endpoint {
  const said = options.source as unknown as FileSource;
  return { ...endpoint(input.name, said, 'csv'), name };
}

/** Findings about package files that differ from the manifest. */
async function verifyPackageFiles(folder: string, { model }: Predicate): Promise<ProofFinding[]> {
  const make = (text: string): ProofFinding => finding('package', 'content', `package: ${text}`);
  let files: readonly { name: string; sha256: string }[];
  try {
    const hashed = await hashFolder(folder);
    if (hashed.sha256 === model.package_sha256) return [];
    files = hashed.files;
  } catch (error) {
    return [make(asSluiceError(error, 'model_invalid').message)];
  }
  const now = new Map(hashedFiles(files).map((f) => [f.name, f.sha256]));
  const before = new Map(model.files.map((f) => [f.name, f.sha256]));
  const findings: ProofFinding[] = [];
  // `folder` may contain several packages instead of being one.
  const inside = [...now.keys()].find(
    (name) => name.endsWith('/model.yaml') && now.get(name) === before.get('model.yaml'),
  );
  if (inside !== undefined) {
    const own = path.join(folder, path.dirname(inside));
    return [make(`the folder contains several packages; the one of this output is --package ${own}`)];
  }
  for (const [name, sha256] of before) {
    if (!now.has(name)) findings.push(make(`${name} was removed`));
    else if (now.get(name) !== sha256) findings.push(make(`${name} was changed`));
  }
  for (const name of now.keys()) if (!before.has(name)) findings.push(make(`${name} was added`));
  return findings;
}
