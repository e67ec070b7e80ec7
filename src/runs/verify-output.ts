// Checks an output against its manifest, offline: the manifest itself, the output, its list of rejected rows, and what else is at hand.

import type { KeyObject } from 'node:crypto';
import path from 'node:path';
import type { FileSource } from '../config/pipeline-schema.ts';
import { asSluiceError, SluiceError } from '../core/errors.ts';
import { fileFault } from '../core/file-errors.ts';
import { isColumnar } from '../core/file-format.ts';
import { manifestNameOf } from '../core/sidecar-files.ts';
import type { DELIMITERS } from '../io/decode/header.ts';
import { hashedFiles, hashFolder } from '../model/package/package-hash.ts';
import { ByteDigest, type Mark } from '../proof/byte-witness.ts';
import { unseal } from '../proof/envelope.ts';
import { fieldAt, joinFindings, nameRows, type ProofFinding, type Records } from '../proof/name-rows.ts';
import { type Predicate, type ProvenFile, predicateOf } from '../proof/statement.ts';
import { verifyLines } from '../proof/verify-lines.ts';
import { type Endpoint, endpoint, openSource } from './endpoints.ts';
import { besideStored, storedBytes, storedText } from './stored.ts';

export interface VerifyOptions {
  output: string;
  /** Looked for beside the output under the name the manifest has; null: there is none to look at. */
  input: string | null;
  /** Default: beside the output, under the name the manifest has. */
  list: string | null;
  /** Folder of the package; null: it is not looked at. */
  package: string | null;
  /** Who has to have signed; null: nobody is asked for. */
  key: KeyObject | null;
  /** The name under which the output was written; default: the one it has now. */
  writtenAs?: string;
}

export interface Verified {
  whole: boolean;
  findings: ProofFinding[];
  /** What was checked. */
  checked: ProofFinding['file'][];
  /** null: the manifest cannot be trusted. */
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
  if (text === null) throw new SluiceError('manifest_invalid', `${file} is not there`);
  const { statement, signedBy } = unseal(text, key);
  try {
    return { predicate: predicateOf(statement), signedBy };
  } catch (cause) {
    throw asSluiceError(cause, 'manifest_invalid');
  }
}

/** Never throws for what is damaged or missing: that is what it finds. */
export async function verifyOutput(options: VerifyOptions): Promise<Verified> {
  let read: Awaited<ReturnType<typeof readManifest>>;
  try {
    read = await readManifest(options.output, options.key);
  } catch (error) {
    const { message } = asSluiceError(error, 'manifest_invalid');
    const findings: ProofFinding[] = [{ file: 'manifest', kind: 'content', rows: [], text: message }];
    return { whole: false, findings, checked: ['manifest'], predicate: null, signedBy: [] };
  }
  const { predicate, signedBy } = read;
  const findings: ProofFinding[] = [];
  const checked: ProofFinding['file'][] = ['manifest'];
  const { output, list, input } = predicate;
  const name = options.writtenAs ?? path.basename(options.output);
  // Else what was signed for another day would pass for the output of this one.
  if (output.name !== name) {
    const text = `output: the manifest is about ${output.name}, not ${name} (--written-as names what was renamed)`;
    findings.push({ file: 'output', kind: 'name', rows: [], text });
  }
  const check = async (file: 'output' | 'list' | 'input', at: Endpoint, proven: ProvenFile, records: Records) => {
    checked.push(file);
    findings.push(...(await verifyFile({ file, at, proven, records, blocks: marksOf(predicate, file), predicate })));
  };
  await check('output', outputEnd(predicate, options.output), output, outputRecords(predicate));
  const listName = options.list ?? (list && besideStored(options.output, list.name));
  if (list && listName !== null) {
    const rowOf = (record: string): number | null => rowIn(record, ',', 1);
    const at: Endpoint = { name: listName, format: 'csv', compression: 'none', delimiter: ',' };
    await check('list', at, list, { delimiter: ',', header: true, rowOf });
  }
  if (options.input !== null) await check('input', inputEnd(predicate, options.input), input, inputRecords(predicate));
  if (options.package !== null) {
    checked.push('package');
    findings.push(...(await verifyPackageFiles(options.package, predicate)));
  }
  return { whole: findings.length === 0, findings, checked, predicate, signedBy };
}

const marksOf = ({ blocks }: Predicate, file: 'output' | 'list' | 'input'): (Mark | null)[] =>
  blocks.map((block) => block[file]);

interface FileToVerify {
  file: 'output' | 'list' | 'input';
  at: Endpoint;
  proven: ProvenFile;
  records: Records;
  blocks: (Mark | null)[];
  predicate: Predicate;
}

async function verifyFile({ file, at, proven, records, blocks, predicate }: FileToVerify): Promise<ProofFinding[]> {
  const make = (kind: ProofFinding['kind'], text: string): ProofFinding[] => [
    { file, kind, rows: [], text: `${file}: ${text}` },
  ];
  const otherwise = proven.content?.sha256 !== proven.stored.sha256;
  let storedWhole = true;
  try {
    if (otherwise) storedWhole = (await digestOfFile(at.name)).sha256 === proven.stored.sha256;
    const marks = blocks.filter((m) => m !== null);
    if (proven.content === null && (storedWhole || marks.length === 0))
      return storedWhole ? [] : make('stored', 'the file was changed');
    const source = await openSource(at);
    try {
      const { blocks: damaged, tail, digest } = await verifyLines(source.chunks, marks, proven.content);
      const named = joinFindings(damaged.flatMap((found) => nameRows(file, found, rowsOf(file, predicate), records)));
      if (tail) named.push(...make('tail', 'what stands behind the last row was changed'));
      if (named.length === 0 && proven.content && digest.sha256 !== proven.content.sha256)
        return make('content', 'the file was changed');
      if (named.length === 0 && !storedWhole)
        return make('stored', 'the file was packed or written anew: its rows are what they were');
      return named;
    } finally {
      await source.close();
    }
  } catch (error) {
    const { code, message } = asSluiceError(error, 'input_unreadable');
    return make(code === 'input_not_found' ? 'missing' : 'content', message);
  }
}

/** Blocks with the rows that the file has of them: the list has those that were rejected. */
const rowsOf = (file: FileToVerify['file'], { blocks }: Predicate) =>
  file === 'list' ? blocks.map((b) => ({ ...b, rows: b.rejected })) : blocks;

async function digestOfFile(name: string): Promise<{ sha256: string }> {
  const digest = new ByteDigest();
  try {
    for await (const chunk of storedBytes(name)) digest.add(chunk);
  } catch (cause) {
    throw new SluiceError('input_not_found', `${name} cannot be read: ${fileFault(cause)}`, { cause });
  }
  return digest.digest;
}

interface EndOptions {
  format?: Endpoint['format'];
  compression?: Endpoint['compression'];
  delimiter?: keyof typeof DELIMITERS;
}

/** The output as it is read again; its name now may be another one than it was written under. */
export function outputEnd({ options, output }: Predicate, name: string): Endpoint {
  return { ...endpoint(output.name, options.sink as EndOptions, 'csv'), name };
}

export function inputEnd({ options, input }: Predicate, name: string): Endpoint {
  const said = options.source as unknown as FileSource;
  return { ...endpoint(input.name, said, 'csv'), name };
}

function outputRecords(predicate: Predicate): Records {
  const { format, delimiter } = outputEnd(predicate, '');
  if (format === 'ndjson') {
    return { delimiter: null, header: false, rowOf: rowOfObject };
  }
  if (format !== 'csv' && format !== 'tsv') return { delimiter: 'none', header: false, rowOf: null };
  const { passthrough } = predicate.options.score as { passthrough?: readonly string[] | '*' };
  const column = passthrough === '*' ? null : (passthrough?.length ?? 0);
  const rowOf = (record: string): number | null => (column === null ? null : rowIn(record, delimiter, column));
  return { delimiter, header: true, rowOf };
}

/** The number in a line of NDJSON, damaged or not; a passthrough value may have a member of that name, too. */
function rowOfObject(line: string): number | null {
  try {
    return Number((JSON.parse(line) as { row?: unknown }).row) || null;
  } catch {
    return Number(/"row":(\d+)/.exec(line)?.[1]) || null;
  }
}

function rowIn(record: string, delimiter: string, column: number): number | null {
  const field = fieldAt(record, delimiter, column);
  return field && (Number(record.slice(...field)) || null);
}

function inputRecords(predicate: Predicate): Records {
  const { format, delimiter } = inputEnd(predicate, '');
  if (format === 'ndjson' || isColumnar(format)) return { delimiter: null, header: false, rowOf: null };
  if (format === 'json') return { delimiter: 'none', header: false, rowOf: null };
  const said = predicate.options.source as { header?: boolean };
  return { delimiter, header: said.header !== false, rowOf: null };
}

/** Which files of a package are not what the manifest names. */
async function verifyPackageFiles(folder: string, { model }: Predicate): Promise<ProofFinding[]> {
  const make = (text: string): ProofFinding => ({
    file: 'package',
    kind: 'content',
    rows: [],
    text: `package: ${text}`,
  });
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
  for (const [name, sha256] of before) {
    if (!now.has(name)) findings.push(make(`${name} is gone`));
    else if (now.get(name) !== sha256) findings.push(make(`${name} was changed`));
  }
  for (const name of now.keys()) if (!before.has(name)) findings.push(make(`${name} was added`));
  return findings;
}
