// The statement in a manifest: an in-toto statement about an output and its rejects file.
import { hash } from 'node:crypto';
import { epochMs } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { isPlainName } from '../core/file-names.ts';
import type { BlockRange, Digest, Mark } from './block-digests.ts';
import { canonicalJson, type JsonValue } from './canonical-json.ts';

const sha256 = (...parts: readonly Uint8Array[]): Buffer => hash('sha256', Buffer.concat(parts), 'buffer');

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

/** The Merkle root of the leaves, 32 bytes. Without leaves, returns the hash of the empty input. */
export function merkleRoot(leaves: readonly Uint8Array[]): Buffer {
  if (leaves.length === 0) return sha256();
  // Nodes are paired from the left. A node without a partner moves up unchanged, which is equivalent to splitting at
  // the largest power of two.
  let level = leaves.map((leaf) => sha256(LEAF, leaf));
  while (level.length > 1) {
    const next: Buffer[] = [];
    for (let i = 0; i < level.length; i += 2) {
      next.push(i + 1 < level.length ? sha256(NODE, level[i]!, level[i + 1]!) : level[i]!);
    }
    level = next;
  }
  return level[0]!;
}

const STATEMENT_TYPE = 'https://in-toto.io/Statement/v1';
/** The predicate type of this release, described in docs/proof.md. */
const PREDICATE_TYPE = 'urn:sluice:scored-file:v3';
/** The predicate types whose blocks can be compared. In v2, every block has a SHA-256. */
const COMPARABLE_TYPES = [PREDICATE_TYPE, 'urn:sluice:scored-file:v2'];
/** The first predicate type. The block digests of this type cover lines, which this release cannot compute. */
const FIRST_TYPE = 'urn:sluice:scored-file:v1';

/** A file of a run, as it is stored. */
export interface ProvenFile {
  /** Name of the file without its folder. */
  name: string;
  stored: Digest;
}

/** The marks of one block of a run. */
export interface ProvenBlock {
  rows: number;
  /** Null if the file has other blocks than the run: row groups or record batches. */
  input: Mark | null;
  output: Mark | null;
  /** Null if all rows of the block were accepted, or if the run has no rejects file. */
  list: Mark | null;
}

/** The files that have blocks, in the order of the manifest. */
const PROVEN_FILES = ['input', 'output', 'list'] as const;
export type ProvenName = (typeof PROVEN_FILES)[number];
export type ProvenBlocks = Readonly<Record<ProvenName, readonly BlockRange[]>>;

export interface Predicate {
  model: { ref: string; package_sha256: string; files: readonly { name: string; sha256: string }[] };
  made_by: { sluice: string; node: string; onnxruntime: string; evaluator: string };
  /** Options that affect the output, named as in a pipeline file. */
  options: { readonly [key: string]: JsonValue | undefined };
  input: ProvenFile;
  output: ProvenFile;
  list: ProvenFile | null;
  rows: {
    read: number;
    scored: number;
    rejected: number;
    skipped: number;
    rejected_by_code: Readonly<Record<string, number>>;
  };
  /** Null for a manifest of an earlier release whose blocks cannot be compared. */
  blocks: ProvenBlocks | null;
  /** SHA-256 of the manifest that was replaced by this one; null if none was replaced. */
  previous: string | null;
  /**
   * End of the run, in ISO 8601 and UTC. Only signed manifests contain the end time, because without a signature
   * everyone could forge it.
   */
  finished?: string;
}

/** A block in the form in which a manifest contains it. */
type BlockEntry = [file: ProvenName, end: number, rows: number, digest: string | null];

const entriesOf = (blocks: ProvenBlocks): BlockEntry[] =>
  PROVEN_FILES.flatMap((file) => blocks[file].map(({ end, rows, digest }): BlockEntry => [file, end, rows, digest]));

/** Matches a CRC-32 or a SHA-256. */
const BLOCK_DIGEST = /^(?:[0-9a-f]{8}|[0-9a-f]{64})$/;

/** @throws SluiceError manifest_invalid */
function blocksOf(entries: readonly BlockEntry[]): ProvenBlocks {
  const blocks: Record<ProvenName, BlockRange[]> = { input: [], output: [], list: [] };
  for (const [file, end, rows, digest] of entries) {
    const before = blocks[file]?.at(-1)?.end ?? 0;
    if (!(end > before && rows >= 0)) throw invalid('its blocks are not in order');
    if (digest !== null && !BLOCK_DIGEST.test(digest)) throw invalid('a block has no valid digest');
    blocks[file].push({ end, rows, digest });
  }
  return blocks;
}

type Files = Pick<Predicate, 'input' | 'output' | 'list'>;

/**
 * The Merkle root over the SHA-256 of input, output and rejects file as stored, and over all blocks. Each leaf is
 * canonical JSON.
 */
const rootOf = (files: Files, entries: readonly JsonValue[]): string => {
  const stored = PROVEN_FILES.map((file) => files[file]?.stored.sha256 ?? null);
  return merkleRoot([stored, ...entries].map((e) => Buffer.from(canonicalJson(e)))).toString('hex');
};

export const statementOf = (predicate: Predicate): JsonValue =>
  statementWith(predicate, PREDICATE_TYPE, entriesOf(predicate.blocks!));

function statementWith(predicate: Omit<Predicate, 'blocks'>, type: string, entries: readonly JsonValue[]): JsonValue {
  const { output, list } = predicate;
  const subject = [output, ...(list ? [list] : [])].map((f) => ({ name: f.name, digest: { sha256: f.stored.sha256 } }));
  return {
    _type: STATEMENT_TYPE,
    subject,
    predicateType: type,
    predicate: {
      ...predicate,
      blocks: { count: entries.length, merkle_root: rootOf(predicate, entries), entries },
    } as unknown as JsonValue,
  };
}

interface Written extends Omit<Predicate, 'blocks'> {
  blocks: { count: number; merkle_root: string; entries: readonly JsonValue[] };
}

/** Reads a statement and checks that it is consistent. @throws SluiceError manifest_invalid */
export function predicateOf(statement: JsonValue): Predicate {
  const { _type, predicateType, predicate } = statement as unknown as {
    _type: string;
    predicateType: string;
    predicate: Written;
  };
  if (_type !== STATEMENT_TYPE || ![...COMPARABLE_TYPES, FIRST_TYPE].includes(predicateType)) {
    throw invalid('it does not describe an output of Sluice');
  }
  const { entries, merkle_root } = predicate.blocks;
  if (merkle_root !== rootOf(predicate, entries)) throw invalid('its blocks do not match its root hash');
  if (canonicalJson(statementWith(predicate, predicateType, entries)) !== canonicalJson(statement)) {
    throw invalid('parts of it contradict each other');
  }
  const { rows } = predicate;
  const byCode = Object.values(rows.rejected_by_code).reduce((a, b) => a + b, 0);
  if (rows.read !== rows.scored + rows.rejected + rows.skipped || byCode !== rows.rejected) {
    throw invalid('the rows read are not the sum of its scored, rejected and skipped rows');
  }
  const blocks = COMPARABLE_TYPES.includes(predicateType) ? blocksOf(entries as unknown as BlockEntry[]) : null;
  if (blocks) checkRows(blocks, rows);
  // Names must not contain paths, because the files are looked up next to the output.
  const names = PROVEN_FILES.flatMap((file) => predicate[file]?.name ?? []);
  if (!names.every(isPlainName)) throw invalid('it contains a path instead of a file name');
  if (predicate.finished !== undefined && !ISO_TIME.test(predicate.finished)) throw invalid('its time is invalid');
  return { ...predicate, blocks };
}

function checkRows(blocks: ProvenBlocks, { read, skipped }: Predicate['rows']): void {
  const [input, output, list] = PROVEN_FILES.map((file) => blocks[file].reduce((sum, { rows }) => sum + rows, 0));
  if (input !== read - skipped || output !== read - skipped || list! > read) {
    throw invalid('the rows of its blocks do not add up to its row counts');
  }
}

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** The end time for a signed manifest; empty for an unsigned one. */
export const finishedNow = (key: unknown): Pick<Predicate, 'finished'> =>
  key === null ? {} : { finished: new Date(epochMs()).toISOString() };

const invalid = (how: string): SluiceError => new SluiceError('manifest_invalid', `the manifest is damaged: ${how}`);
