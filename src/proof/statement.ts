// What a manifest says: an in-toto statement about an output and its list of rejected rows.
import { epochMs } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { isPlainName } from '../core/plain-name.ts';
import type { Digest, Mark } from './byte-witness.ts';
import { canonicalJson, type JsonValue } from './canonical-json.ts';
import { merkleRoot } from './merkle.ts';

const STATEMENT_TYPE = 'https://in-toto.io/Statement/v1';
/** Described in docs/proof.md. */
const PREDICATE_TYPE = 'urn:sluice:scored-file:v1';

/** The ending that the manifest of an output has behind its name. */

/** A file of a run. `stored`: as it lies on the disk; `content`: unpacked, null where it packs itself (Parquet). */
export interface ProvenFile {
  /** Without its folder. */
  name: string;
  stored: Digest;
  content: Digest | null;
}

/** The part of a run that is one block: where it ends in each file, and what its lines are. */
export interface ProvenBlock {
  rows: number;
  rejected: number;
  input: Mark;
  /** null: the output has no lines. */
  output: Mark | null;
  /** null: there is no list. */
  list: Mark | null;
}

export interface Predicate {
  model: { ref: string; package_sha256: string; files: readonly { name: string; sha256: string }[] };
  made_by: { sluice: string; node: string; onnxruntime: string; evaluator: string };
  /** Those that change the output, in the words of a pipeline file. */
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
  blocks: readonly ProvenBlock[];
  /** SHA-256 of the manifest that lay there before; null: none did. */
  previous: string | null;
  /** When the run finished, ISO 8601 in UTC; signed manifests only, because without a signature anybody could write it. */
  finished?: string;
}

/** A block as a manifest has it. */
export type BlockEntry = [
  rows: number,
  rejected: number,
  input: WrittenMark,
  output: WrittenMark | null,
  list: WrittenMark | null,
];
type WrittenMark = [end: number, lines: number, sums: string];

type ProvenFiles = Pick<Predicate, 'input' | 'output' | 'list'>;

/** `[rows, rejected, input, output, list]`, each of the last `[end, lines, sums]` or null. */
export const entryOf = ({ rows, rejected, input, output, list }: ProvenBlock): BlockEntry => {
  const mark = (m: Mark): WrittenMark => [m.end, m.lines, m.sums];
  return [rows, rejected, mark(input), output && mark(output), list && mark(list)];
};

export const blockOfEntry = ([rows, rejected, input, output, list]: BlockEntry): ProvenBlock => {
  const mark = ([end, lines, sums]: WrittenMark): Mark => ({ end, lines, sums });
  return { rows, rejected, input: mark(input), output: output && mark(output), list: list && mark(list) };
};

/** The root over the canonical JSON of what input, output and list are as stored, and of each block. */
const rootOf = ({ input, output, list }: ProvenFiles, entries: readonly BlockEntry[]): string => {
  const files = [input, output, list].map((file) => file?.stored.sha256 ?? null);
  return merkleRoot([files, ...entries].map((e) => Buffer.from(canonicalJson(e)))).toString('hex');
};

export function statementOf(predicate: Predicate): JsonValue {
  const { output, list, blocks } = predicate;
  const entries = blocks.map(entryOf);
  const subject = [output, ...(list ? [list] : [])].map((f) => ({ name: f.name, digest: { sha256: f.stored.sha256 } }));
  return {
    _type: STATEMENT_TYPE,
    subject,
    predicateType: PREDICATE_TYPE,
    predicate: {
      ...predicate,
      blocks: { count: entries.length, merkle_root: rootOf(predicate, entries), entries },
    } as unknown as JsonValue,
  };
}

interface Written extends Omit<Predicate, 'blocks'> {
  blocks: {
    count: number;
    merkle_root: string;
    entries: BlockEntry[];
  };
}

/** Reads a statement and checks that it does not contradict itself. @throws SluiceError manifest_invalid */
export function predicateOf(statement: JsonValue): Predicate {
  const { _type, predicateType, predicate, subject } = statement as unknown as {
    _type: string;
    predicateType: string;
    predicate: Written;
    subject: { name: string; digest: { sha256: string } }[];
  };
  if (_type !== STATEMENT_TYPE || predicateType !== PREDICATE_TYPE) throw invalid('it is about something else');
  const blocks = predicate.blocks.entries.map(blockOfEntry);
  const read = { ...predicate, blocks };
  const sum = (of: (b: ProvenBlock) => number) => blocks.reduce((total, b) => total + of(b), 0);
  const { rows } = read;
  const byCode = Object.values(rows.rejected_by_code).reduce((a, b) => a + b, 0);
  if (rows.read !== rows.scored + rows.rejected + rows.skipped) throw invalid('its rows do not add up');
  if (
    sum((b) => b.rows) !== rows.read - rows.skipped ||
    sum((b) => b.rejected) !== rows.rejected ||
    byCode !== rows.rejected
  ) {
    throw invalid('its blocks do not add up to its rows');
  }
  if (canonicalJson(statementOf(read)) !== canonicalJson(statement)) {
    throw invalid(
      predicate.blocks.merkle_root === rootOf(predicate, predicate.blocks.entries)
        ? 'it contradicts itself'
        : 'its blocks do not have the root it names',
    );
  }
  if (subject[0]!.digest.sha256 !== read.output.stored.sha256) throw invalid('it contradicts itself');
  // They are looked for beside the output.
  const names = [read.input, read.output, ...(read.list ? [read.list] : [])].map(({ name }) => name);
  if (!names.every(isPlainName)) throw invalid('a name in it is a path');
  if (read.finished !== undefined && !ISO_TIME.test(read.finished)) throw invalid('its time is none');
  return read;
}

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** The time of a run for its manifest, if that is signed. */
export const finishedNow = (key: unknown): Pick<Predicate, 'finished'> =>
  key === null ? {} : { finished: new Date(epochMs()).toISOString() };

const invalid = (how: string): SluiceError => new SluiceError('manifest_invalid', `the manifest is damaged: ${how}`);
