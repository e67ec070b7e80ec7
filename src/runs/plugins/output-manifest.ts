// What a run from a file into a file leaves as proof: it sees both ends and the list while they pass, and writes the manifest.

import { createHash, type KeyObject } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-errors.ts';
import { isColumnar } from '../../core/file-format.ts';
import { manifestNameOf } from '../../core/sidecar-files.ts';
import { ONNXRUNTIME_VERSION, VERSION } from '../../core/version.ts';
import type { RunCounts, WrittenBlock } from '../../engine/counts.ts';
import { blockBytesOf } from '../../engine/score-chunks.ts';
import { DELIMITERS } from '../../io/decode/header.ts';
import type { CommitSet } from '../../io/sink/commit-set.ts';
import type { CutOptions } from '../../io/source/block-cutter.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import { hashedFiles } from '../../model/package/package-hash.ts';
import { ByteDigest, ByteWitness, type Digest, isSameMark, LineWitness, type Mark } from '../../proof/byte-witness.ts';
import type { JsonValue } from '../../proof/canonical-json.ts';
import { readKey, seal } from '../../proof/envelope.ts';
import { finishedNow, type Predicate, type ProvenBlock, type ProvenFile, statementOf } from '../../proof/statement.ts';
import { changedMeanwhile } from '../checkpoint-journal.ts';
import { type Endpoint, type OpenSink, STDIO, type StoredBytes } from '../endpoints.ts';
import type { Attempt, BlockProof, RunPlugin, StepObserver } from '../plugin.ts';
import type { ListWitness, RejectsList } from '../rejects-list.ts';
import type { FileRunSpec, FilesOnlySpec } from '../spec.ts';
import { storedBytes, storedText } from '../stored.ts';

/** Keys of a spec that never change a byte of the output, or name what the manifest has elsewhere. */
const WITHOUT_EFFECT = new Set([
  'path',
  'workers',
  'batch_rows',
  'batch_wait_ms',
  // What a sender says of an input is compared, and changes nothing.
  'expect',
  'control',
  'done_file',
]);

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
  /** Without a hash where the content of the input is told by what is stored. */
  readonly #input: ByteWitness | LineWitness;
  readonly #inputStored: ByteDigest | null;
  readonly #output: ByteWitness | null;
  readonly #outputStored: ByteDigest | null;
  /** Marks of the input at blocks that are not written yet. */
  readonly #cut: Mark[] = [];
  readonly #blocks: ProvenBlock[];
  /** Bytes that are read before a piece of a file, and are none of it. */
  #before: number;
  /** Blocks of the input that have been cut, and blocks that checkpoints have. */
  #seen = 0;
  #taken: number;

  constructor(of: ProofOf) {
    this.#of = of;
    this.#blocks = [...(of.earlier ?? [])];
    this.#taken = this.#blocks.length;
    const { format, compression, declared, totals, planned } = of.input;
    const asStored = compression === 'none' && format !== 'arrow' && !declared?.encoding && !totals?.trailer;
    this.#before = planned && planned.piece.from > 0 ? planned.file.head.bytes : 0;
    // A plan has hashed what is stored.
    this.#inputStored = asStored || planned ? null : new ByteDigest();
    this.#input = isColumnar(format) || (planned && asStored) ? new LineWitness() : new ByteWitness();
    this.#output = isColumnar(of.output.format) ? null : new ByteWitness();
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

  readonly onConsumed: NonNullable<CutOptions['onConsumed']> = (consumed, blockEnds, slabs) => {
    const bytes = this.#before > 0 ? consumed.subarray(this.#before) : consumed;
    this.#before -= consumed.length - bytes.length;
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
    const { decompressed } = await import('../../io/source/decompressed.ts');
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

  /** What was seen of all files, once they are whole; of a piece of a file the input is as planned. */
  async seen(): Promise<SeenFiles> {
    const { input, output, list } = this.#of;
    // A list that nothing was written to is not there.
    const seenOfList = list?.witness.digest ?? null;
    const listed = seenOfList?.bytes ? seenOfList : null;
    const content = this.#input instanceof ByteWitness ? this.#input.digest : null;
    const written = this.#output?.digest ?? null;
    return {
      input: provenFile(input.name, await this.#storedInput(content), content),
      output: provenFile(output.name, this.#outputStored?.digest ?? written!, written),
      list: listed && provenFile(list!.name, listed, listed),
      blocks: listed ? this.#blocks : this.#blocks.map((block) => ({ ...block, list: null })),
    };
  }

  async #storedInput(content: Digest | null): Promise<Digest> {
    const { name, format, planned } = this.#of.input;
    if (planned) return { bytes: planned.piece.to - planned.piece.from, sha256: planned.piece.sha256 };
    if (format === 'parquet') return digestOf(name);
    return this.#inputStored?.digest ?? content!;
  }

  /** The text of the manifest, once all files are whole. @throws SluiceError model_invalid | usage: the key */
  async manifest(counts: Readonly<RunCounts>, evaluator: string): Promise<string> {
    const { spec, model, input, output } = this.#of;
    const statement = statementOf({
      model: modelOf(model),
      made_by: { ...RUNTIME, evaluator },
      options: optionsOf(spec, input, output),
      ...(await this.seen()),
      rows: provenRows(counts),
      previous: await previousOf(manifestNameOf(output.name)),
      ...finishedNow(this.#of.key),
    });
    return seal(statement, this.#of.key);
  }
}

/** The files of a run and its blocks. */
export type SeenFiles = Pick<Predicate, 'input' | 'output' | 'list' | 'blocks'>;

/** What is the same for all runs of this program. */
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

export const provenFile = (name: string, stored: ProvenFile['stored'], content: ProvenFile['content']): ProvenFile => ({
  name: name === STDIO ? 'stdin' : path.basename(name),
  stored,
  content,
});

/** What of a run changes its output, in the words of a pipeline; what its files are is said in full. */
export function optionsOf(spec: FileRunSpec, input: Endpoint, output: Endpoint): Predicate['options'] {
  const { source, sink, score, on_invalid, allow_empty, tuning } = spec as FilesOnlySpec;
  const plain = (part: object): { [key: string]: JsonValue | undefined } =>
    JSON.parse(JSON.stringify(Object.fromEntries(Object.entries(part).filter(([key]) => !WITHOUT_EFFECT.has(key)))));
  return {
    source: { ...plain(source), ...formatOf(input) },
    sink: { ...plain(sink), ...formatOf(output) },
    score: plain(score),
    on_invalid,
    allow_empty: allow_empty ?? false,
    block_bytes: tuning?.blockBytes ?? blockBytesOf(isColumnar(input.format)),
  };
}

/** `delimiter`: nothing where there is none. */
export function formatOf({ format, compression, delimiter }: Pick<Endpoint, 'format' | 'compression' | 'delimiter'>) {
  const delimited = format === 'csv' || format === 'tsv';
  const name = Object.entries(DELIMITERS).find(([, mark]) => mark === delimiter)?.[0];
  return { format, compression, delimiter: delimited ? name : undefined };
}

/** Of a file or an object that is not read from its beginning to its end. */
export async function digestOf(file: string): Promise<ProvenFile['stored']> {
  const digest = new ByteDigest();
  for await (const chunk of storedBytes(file)) digest.add(chunk);
  return digest.digest;
}

/** SHA-256 of the manifest that is there; null: none is. @throws SluiceError output_failed: it cannot be read */
export async function previousOf(file: string): Promise<string | null> {
  const text = await storedText(file).catch((cause) => {
    if (cause instanceof SluiceError) throw cause;
    throw new SluiceError('output_failed', `the earlier manifest ${file} cannot be read: ${fileFault(cause)}`, {
      cause,
    });
  });
  return text === null ? null : createHash('sha256').update(text).digest('hex');
}

export interface ObservedStep {
  spec: FileRunSpec;
  model: ModelPackage;
  input: Endpoint;
  output: Endpoint;
  rejects: RejectsList;
  /** Signs the manifest; null: it is not signed. */
  key: KeyObject | null;
  /** Blocks that the interrupted run wrote; null: the step starts from the beginning. */
  earlier: readonly ProvenBlock[] | null;
}

/** Observes both ends and the rejects file of a step: the taps of the manifest and of the description of a shard part. */
export class ProofObserver implements StepObserver {
  protected readonly of: ProofOf;
  /** Of the current attempt. */
  protected current: RunProof;

  /** Called before the rejects file of the step is opened, because that is observed from its beginning. */
  constructor({ rejects, ...of }: ObservedStep) {
    const witness = rejects.witnessOf(of.input);
    this.of = { ...of, list: witness && { name: rejects.pathFor(of.input)!, witness } };
    this.current = new RunProof(this.of);
  }

  begin(): void {
    this.current = new RunProof(this.of);
  }

  get proof(): BlockProof {
    return this.current;
  }

  get onSourceBytes(): StoredBytes | undefined {
    return this.current.sourceStored;
  }

  get onStored(): StoredBytes | undefined {
    return this.current.sinkStored;
  }

  get onConsumed(): RunProof['onConsumed'] {
    return this.current.onConsumed;
  }

  verifyWritten(stored: AsyncIterable<Uint8Array>): Promise<void> {
    return this.current.goOn(stored);
  }

  tapSink({ sink }: Attempt): OpenSink {
    return this.current.sink(sink);
  }

  onBlock(block: WrittenBlock): void {
    this.current.onBlock(block);
  }
}

/** Adds a manifest to the set that its output is published with. */
class ManifestObserver extends ProofObserver {
  readonly #set: CommitSet;
  readonly #evaluator: () => string;

  constructor(of: ObservedStep, { set, evaluator }: { set: CommitSet; evaluator: () => string }) {
    super(of);
    this.#set = set;
    this.#evaluator = evaluator;
  }

  async sidecars(counts: Readonly<RunCounts>): Promise<void> {
    await addManifest(this.#set, this.of.output.name, await this.current.manifest(counts, this.#evaluator()));
  }
}

/** Publishes a manifest with each output; one of an earlier run is removed where this run has none. */
export const manifestPlugin: RunPlugin = {
  plan({ spec, model, rejects, signKey: key, evaluator }) {
    return ({ input, output, set, resume }) => {
      if (output === null || output.name === STDIO) return null;
      const manifest = manifestNameOf(output.name);
      if (!isProven(spec, output)) return { sidecars: () => set.remove(manifest) };
      const earlier = resume?.proven ?? null;
      return new ManifestObserver({ spec, model, input, output, rejects, key, earlier }, { set, evaluator });
    };
  },
};
