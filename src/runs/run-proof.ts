// What a run from a file into a file leaves as proof: it sees both ends and the list while they pass, and writes the manifest.

import { createHash, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import { fileFault } from '../core/file-errors.ts';
import { ONNXRUNTIME_VERSION, VERSION } from '../core/version.ts';
import type { RunCounts, WrittenBlock } from '../engine/counts.ts';
import { DEFAULT_BLOCK_BYTES } from '../engine/score-chunks.ts';
import type { CommitSet } from '../io/sink/commit-set.ts';
import type { CutOptions } from '../io/source/block-cutter.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { hashedFiles } from '../model/package/package-hash.ts';
import { ByteDigest, ByteWitness, isSameMark, type Mark } from '../proof/byte-witness.ts';
import type { JsonValue } from '../proof/canonical-json.ts';
import { readKey, seal } from '../proof/envelope.ts';
import { MANIFEST_ENDING, type ProvenBlock, type ProvenFile, statementOf } from '../proof/statement.ts';
import { changedMeanwhile } from './checkpoint-journal.ts';
import { type Endpoint, type OpenSink, STDIO, type StoredBytes } from './endpoints.ts';
import type { ListWitness } from './rejects-list.ts';
import type { FileRunSpec, FilesOnlySpec } from './spec.ts';
import { storedBytes, storedText } from './stored.ts';

/** Keys of a spec that never change a byte of the output, or name what the manifest has elsewhere. */
const WITHOUT_EFFECT = new Set(['path', 'workers', 'batch_rows', 'batch_wait_ms']);

export const manifestNameOf = (output: string): string => `${output}${MANIFEST_ENDING}`;

export interface ProofOf {
  spec: FileRunSpec;
  model: ModelPackage;
  input: Endpoint;
  output: Endpoint;
  /** null: manifests are not signed. */
  key: KeyObject | null;
  /** Blocks that an earlier run wrote; null: this one begins. */
  earlier: readonly ProvenBlock[] | null;
  /** The list of rejected rows and its path; null: there is none. */
  list: { name: string; witness: ListWitness } | null;
}

/** One attempt to score one input: what was seen of it. */
export class RunProof {
  readonly #of: ProofOf;
  readonly #input = new ByteWitness();
  readonly #inputStored: ByteDigest | null;
  readonly #output: ByteWitness | null;
  readonly #outputStored: ByteDigest | null;
  /** Marks of the input at blocks that are not written yet. */
  readonly #cut: Mark[] = [];
  readonly #blocks: ProvenBlock[];
  /** Blocks of the input that have been cut, and blocks that checkpoints have. */
  #seen = 0;
  #taken: number;

  constructor(of: ProofOf) {
    this.#of = of;
    this.#blocks = [...(of.earlier ?? [])];
    this.#taken = this.#blocks.length;
    this.#inputStored = of.input.compression === 'none' && !of.input.declared?.encoding ? null : new ByteDigest();
    this.#output = of.output.format === 'parquet' ? null : new ByteWitness();
    this.#outputStored = of.output.compression === 'none' && this.#output ? null : new ByteDigest();
  }

  /** Sees the input as it is stored, where it is packed. */
  get sourceStored(): StoredBytes | undefined {
    const digest = this.#inputStored;
    return digest ? (bytes) => digest.add(bytes) : undefined;
  }

  /** Sees the output as it is stored, where that is not what is written. */
  get sinkStored(): StoredBytes | undefined {
    const digest = this.#outputStored;
    return digest ? (bytes) => digest.add(bytes) : undefined;
  }

  /** The same sink, seen. */
  sink(sink: OpenSink): OpenSink {
    const witness = this.#output;
    if (!witness) return sink;
    return {
      ...sink,
      get plainBytes() {
        return sink.plainBytes ?? sink.bytesWritten;
      },
      get bytesWritten() {
        return sink.bytesWritten;
      },
      write: (bytes) => {
        witness.add(bytes);
        return sink.write(bytes);
      },
    };
  }

  /** What the earlier run read has been read again, and is the same. */
  get reached(): boolean {
    return this.#seen >= (this.#of.earlier?.length ?? 0);
  }

  readonly onConsumed: NonNullable<CutOptions['onConsumed']> = (bytes, blockEnds, slabs) => {
    if (!blockEnds) return this.#input.add(bytes);
    this.#input.attach(slabs);
    const mark = this.#input.markWith(bytes);
    const earlier = this.#of.earlier?.[this.#seen++];
    if (!earlier) this.#cut.push(mark);
    else if (!isSameMark(earlier.input, mark)) throw changedMeanwhile('the content of the input');
  };

  /** Reads what an earlier run wrote. @throws SluiceError checkpoint_mismatch: it is not what that run left */
  readonly goOn = async (stored: AsyncIterable<Uint8Array>): Promise<void> => {
    const [witness, digest] = [this.#output, this.#outputStored];
    const { compression } = this.#of.output;
    const raw = digest ? observed(stored, (bytes) => digest.add(bytes)) : stored;
    const { decompressed } = await import('../io/source/decompressed.ts');
    const marks = witness === null ? [] : (this.#of.earlier ?? []).map(({ output: mark }) => mark!);
    const found = witness && (await witness.seesAgain(decompressed(raw, compression), marks));
    if (found === false) throw changedMeanwhile('what had been written of the output');
  };

  /** Blocks that were written since it was last asked. */
  takeNew(): readonly ProvenBlock[] {
    const taken = this.#blocks.slice(this.#taken);
    this.#taken = this.#blocks.length;
    return taken;
  }

  readonly onBlock = ({ rows, rejected }: WrittenBlock): void => {
    this.#blocks.push({
      rows,
      rejected,
      input: this.#cut.shift()!,
      output: this.#output?.mark() ?? null,
      list: this.#of.list?.witness.mark() ?? null,
    });
  };

  /** The text of the manifest, once all files are whole. @throws SluiceError model_invalid | usage: the key */
  async manifest(counts: Readonly<RunCounts>, evaluator: string): Promise<string> {
    const { spec, model, input, output, list } = this.#of;
    const files = hashedFiles(model.files).map(({ name, sha256 }) => ({ name, sha256 }));
    // A list that nothing was written to is not there.
    const seenOfList = list?.witness.digest ?? null;
    const listed = seenOfList?.bytes ? seenOfList : null;
    const seen = this.#input.digest;
    const content = this.#output?.digest ?? null;
    const statement = statementOf({
      model: { ref: model.ref, package_sha256: model.sha256, files },
      made_by: { sluice: VERSION, node: process.versions.node, onnxruntime: ONNXRUNTIME_VERSION, evaluator },
      options: optionsOf(spec),
      input: provenFile(
        input.name,
        input.format === 'parquet' ? await digestOf(input.name) : (this.#inputStored?.digest ?? seen),
        seen,
      ),
      output: provenFile(output.name, this.#outputStored?.digest ?? content!, content),
      list: listed && provenFile(list!.name, listed, listed),
      rows: {
        read: counts.rows,
        scored: counts.scored,
        rejected: counts.rejected,
        skipped: 0,
        rejected_by_code: counts.rejectedByCode as Record<string, number>,
      },
      blocks: listed ? this.#blocks : this.#blocks.map((block) => ({ ...block, list: null })),
      previous: await previousOf(manifestNameOf(output.name)),
    });
    return seal(statement, this.#of.key);
  }
}

async function* observed(chunks: AsyncIterable<Uint8Array>, see: StoredBytes): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    see(chunk);
    yield chunk;
  }
}

/** Puts the manifest beside what it is about, with which it becomes final. @throws SluiceError output_* */
export async function addManifest(set: CommitSet, output: string, text: string): Promise<void> {
  const sink = await set.open(manifestNameOf(output), { beside: true });
  await sink.write(Buffer.from(text));
  await sink.commit();
}

/** The key that signs, read before anything is scored. @throws SluiceError usage */
export async function signKeyOf(spec: Pick<FileRunSpec, 'sign_key'>): Promise<KeyObject | null> {
  const file = spec.sign_key ?? process.env.SLUICE_SIGN_KEY;
  if (!file) return null;
  const pem = await readFile(file, 'utf8').catch((cause) => {
    throw new SluiceError('usage', `the key ${file} cannot be read: ${fileFault(cause)}`, { cause });
  });
  return readKey(pem, 'private', file);
}

/** Whether a run into this output leaves a manifest. */
export const isProven = (spec: Pick<FileRunSpec, 'manifest' | 'shard'>, output: Endpoint | null): output is Endpoint =>
  spec.manifest !== false && !spec.shard && output !== null && output.name !== STDIO;

const provenFile = (name: string, stored: ProvenFile['stored'], content: ProvenFile['content']): ProvenFile => ({
  name: name === STDIO ? 'stdin' : path.basename(name),
  stored,
  content,
});

/** What of a run changes its output, in the words of a pipeline. */
export function optionsOf(spec: FileRunSpec): { [key: string]: JsonValue | undefined } {
  const { source, sink, score, on_invalid, allow_empty, tuning } = spec as FilesOnlySpec;
  const plain = (part: object): JsonValue =>
    JSON.parse(
      JSON.stringify(Object.fromEntries(Object.entries(part).filter(([key]) => !WITHOUT_EFFECT.has(key)))),
    ) as JsonValue;
  return {
    source: plain(source),
    sink: plain(sink),
    score: plain(score),
    on_invalid,
    allow_empty: allow_empty ?? false,
    block_bytes: tuning?.blockBytes ?? DEFAULT_BLOCK_BYTES,
  };
}

/** Of a file or an object that is not read from its beginning to its end. */
export async function digestOf(file: string): Promise<ProvenFile['stored']> {
  const digest = new ByteDigest();
  for await (const chunk of storedBytes(file)) digest.add(chunk);
  return digest.digest;
}

async function previousOf(file: string): Promise<string | null> {
  const text = await storedText(file);
  return text === null ? null : createHash('sha256').update(text).digest('hex');
}
