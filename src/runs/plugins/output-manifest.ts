// The manifest of an output. The digests of input, output and rejects file are computed while these files are read and
// written.

import type { KeyObject } from 'node:crypto';
import { STDIO } from '../../connectors/stdio/stdio-connector.ts';
import { manifestNameOf } from '../../core/file-names.ts';
import type { RunCounts, WrittenBlock } from '../../engine/counts.ts';
import type { TableRowsBytes } from '../../formats/columns/table-format.ts';
import { isColumnar } from '../../formats/formats.ts';
import type { CommitSet } from '../../io/sink/commit-set.ts';
import type { CutOptions } from '../../io/source/block-cutter.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import {
  type BlockDigestKind,
  BlockDigests,
  type BlockRange,
  ContentDigests,
  FileDigest,
  isSameMark,
  type Mark,
} from '../../proof/block-digests.ts';
import { seal } from '../../proof/envelope.ts';
import {
  finishedNow,
  type Predicate,
  type ProvenBlock,
  type ProvenBlocks,
  type ProvenFile,
  statementOf,
} from '../../proof/statement.ts';
import type { OpenSink, OpenSource, StoredBytes } from '../byte-ends.ts';
import type { Endpoint } from '../endpoint-specs.ts';
import type { Attempt, BlockProof, RunPlugin, StepObserver } from '../plugin.ts';
import type { ListDigests, RejectsList } from '../rejects-file.ts';
import type { FileRunSpec } from '../spec.ts';
import { changedMeanwhile } from './checkpoint-journal.ts';
import {
  addManifest,
  blockBytesIn,
  isProven,
  listBlocks,
  modelOf,
  optionsOf,
  previousOf,
  provenFile,
  provenRows,
  RUNTIME,
} from './manifest-content.ts';

interface ProofOf {
  spec: FileRunSpec;
  model: ModelPackage;
  input: Endpoint;
  output: Endpoint;
  /** Key that signs the manifest; null if manifests are not signed. */
  key: KeyObject | null;
  /** Blocks that the interrupted run wrote; null if the run starts from the beginning. */
  earlier: readonly ProvenBlock[] | null;
  /** The rejects file; null if there is none. */
  list: { name: string; digests: ListDigests } | null;
}

/** Digest of each block. CRC-32 suffices if the SHA-256 of the file covers the same bytes as the blocks. */
const kindIf = (coversBlocks: boolean): BlockDigestKind => (coversBlocks ? 'crc32' : 'sha256');

/** The digests of one attempt to score one input. */
class RunProof implements BlockProof {
  readonly #of: ProofOf;
  /**
   * Whether the input is text. Text has the blocks that the run scores; the blocks of a table are row groups or record
   * batches.
   */
  readonly isText: boolean;
  /** If the file is uncompressed text, this digest also covers the whole file. */
  readonly #input: BlockDigests;
  readonly #inputStored: FileDigest | null;
  readonly #output: BlockDigests;
  readonly #outputStored: FileDigest | null;
  /** Blocks of columnar files. */
  readonly #inputTable: BlockRange[] = [];
  readonly #outputTable: BlockRange[] = [];
  /** Rows of the record batches that are not yet part of a block, and the minimum size of a block in bytes. */
  #batchRows = 0;
  readonly #batchBytes: number;
  /** Digests of input blocks whose results have not been written yet. */
  readonly #cut: Mark[] = [];
  readonly #blocks: ProvenBlock[];
  /** Length of the header that a shard reads before its piece, in bytes. The header is not part of the piece. */
  #before: number;
  /** Bytes in a shared rejects file that belong to earlier inputs. */
  readonly #listStart: number;
  /** Number of input blocks that were cut, and number of blocks that checkpoints have stored. */
  #seen = 0;
  #taken: number;

  constructor(of: ProofOf) {
    this.#of = of;
    this.#blocks = [...(of.earlier ?? [])];
    this.#taken = this.#blocks.length;
    const { format, compression, declared, totals, planned } = of.input;
    this.isText = !isColumnar(format);
    const coversBlocks = compression === 'none' && !declared?.encoding && !totals?.trailer;
    const asStored = this.isText && coversBlocks;
    this.#before = planned && planned.piece.from > 0 ? planned.file.head.bytes : 0;
    // The digest of a raw piece is in the plan.
    this.#inputStored = asStored || planned ? null : new FileDigest();
    this.#input = asStored && !planned ? new ContentDigests() : new BlockDigests(kindIf(coversBlocks));
    const isPlain = of.output.compression === 'none';
    const outputAsStored = isPlain && !isColumnar(of.output.format);
    this.#output = outputAsStored ? new ContentDigests() : new BlockDigests(kindIf(isPlain));
    this.#outputStored = outputAsStored ? null : new FileDigest();
    this.#batchBytes = blockBytesIn(of.spec, true);
    this.#listStart = of.earlier === null ? (of.list?.digests.bytes ?? 0) : 0;
  }

  /** Receives the raw input, if it differs from the text that is scored. */
  get sourceStored(): StoredBytes | undefined {
    const digest = this.#inputStored;
    // Parquet is not read from start to end, so `readInput` digests it.
    return digest && this.#of.input.format !== 'parquet' ? (bytes) => digest.add(bytes) : undefined;
  }

  /** Receives the raw output, if it differs from the bytes that the run writes. */
  get sinkStored(): StoredBytes | undefined {
    const digest = this.#outputStored;
    return digest ? (bytes) => digest.add(bytes) : undefined;
  }

  /**
   * Receives the bytes of an Arrow input, message by message. Small record batches are joined into one block to keep
   * the manifest small.
   */
  readonly onInputRows: TableRowsBytes = (bytes, rows) => {
    this.#input.add(bytes);
    this.#batchRows += rows;
    const from = this.#inputTable.at(-1)?.end ?? 0;
    if (rows > 0 && this.#input.bytes - from >= this.#batchBytes) this.#endBatches();
  };

  #endBatches(): void {
    const mark = this.#input.mark();
    if (mark) this.#inputTable.push({ ...mark, rows: this.#batchRows });
    this.#batchRows = 0;
  }

  /** Receives row groups and record batches of the output. */
  readonly onOutputRows: TableRowsBytes = (bytes, rows) => {
    const mark = this.#output.markWith(bytes);
    if (mark) this.#outputTable.push({ ...mark, rows });
  };

  /** Wraps a text sink so that the bytes written are digested. */
  sink(sink: OpenSink): OpenSink {
    if (isColumnar(this.#of.output.format)) return sink;
    const digests = this.#output;
    return {
      ...sink,
      get plainBytes() {
        return sink.plainBytes ?? sink.bytesWritten;
      },
      get bytesWritten() {
        return sink.bytesWritten;
      },
      write: (bytes) => {
        digests.add(bytes);
        return sink.write(bytes);
      },
    };
  }

  get reached(): boolean {
    return this.#seen >= (this.#of.earlier?.length ?? 0);
  }

  readonly onConsumed: NonNullable<CutOptions['onConsumed']> = (consumed, blockEnds) => {
    const bytes = this.#before > 0 ? consumed.subarray(this.#before) : consumed;
    this.#before -= consumed.length - bytes.length;
    if (!blockEnds) return this.#input.add(bytes);
    const mark = this.#input.markWith(bytes)!;
    const earlier = this.#of.earlier?.[this.#seen++];
    if (!earlier) this.#cut.push(mark);
    else if (!isSameMark(earlier.input, mark)) throw changedMeanwhile('the content of the input');
  };

  /**
   * Digests a Parquet input in a separate pass, because its pages were not read from start to end.
   * @throws SluiceError input_changed
   */
  async readInput({ groups }: OpenSource): Promise<void> {
    if (!groups) return;
    const { ends, chunks } = groups;
    let next = 0;
    for await (const chunk of chunks) {
      this.#inputStored?.add(chunk);
      for (let at = 0; at < chunk.length; ) {
        const { end = Infinity, rows = 0 } = ends[next] ?? {};
        const n = Math.min(chunk.length - at, end - this.#input.bytes);
        this.#input.add(chunk.subarray(at, at + n));
        at += n;
        if (this.#input.bytes < end) continue;
        this.#inputTable.push({ ...this.#input.mark()!, rows });
        next++;
      }
    }
  }

  /** Verifies the output of the interrupted run. @throws SluiceError checkpoint_mismatch: the output changed */
  readonly verifyWritten = async (stored: AsyncIterable<Uint8Array>): Promise<void> => {
    const digest = this.#outputStored;
    const raw = digest ? observed(stored, (bytes) => digest.add(bytes)) : stored;
    const { decompressed } = await import('../../io/source/decompressed.ts');
    const marks = (this.#of.earlier ?? []).flatMap(({ output }) => output ?? []);
    const isSame = await this.#output.readAgain(decompressed(raw, this.#of.output.compression), marks);
    if (!isSame) throw changedMeanwhile('the partial output');
  };

  takeNew(): readonly ProvenBlock[] {
    const taken = this.#blocks.slice(this.#taken);
    this.#taken = this.#blocks.length;
    return taken;
  }

  readonly onBlock = ({ rows }: WrittenBlock): void => {
    this.#blocks.push({
      rows,
      input: this.#cut.shift() ?? null,
      output: isColumnar(this.#of.output.format) ? null : this.#output.mark(),
      list: this.#of.list?.digests.mark() ?? null,
    });
  };

  /** The digests of the run's files. Call this method once, when the files are complete. */
  async seen(): Promise<SeenFiles> {
    const { input, output, list } = this.#of;
    // A rejects file without bytes is not published.
    const listed = list && list.digests.bytes > 0 ? list.digests.digest : null;
    return {
      input: provenFile(input.name, this.#storedInput()),
      output: provenFile(output.name, this.#outputStored?.digest ?? (this.#output as ContentDigests).digest),
      list: listed && provenFile(list!.name, listed),
      blocks: {
        input: this.isText ? this.#textBlocks('input', this.#input) : this.#tableBlocks(),
        output: isColumnar(output.format) ? this.#outputTable : this.#textBlocks('output', this.#output),
        list: listed ? listBlocks(this.#blocks, this.#listStart, listed.bytes) : [],
      },
    };
  }

  #textBlocks(file: 'input' | 'output', digests: BlockDigests): BlockRange[] {
    const blocks = this.#blocks.map((block): BlockRange => ({ ...block[file]!, rows: block.rows }));
    const rest = digests.mark();
    return rest ? [...blocks, { ...rest, rows: 0 }] : blocks;
  }

  #tableBlocks(): BlockRange[] {
    this.#endBatches();
    return this.#inputTable;
  }

  #storedInput(): ProvenFile['stored'] {
    const { planned } = this.#of.input;
    if (planned) return { bytes: planned.piece.to - planned.piece.from, sha256: planned.piece.sha256 };
    return this.#inputStored?.digest ?? (this.#input as ContentDigests).digest;
  }

  /**
   * The text of the manifest. Call this method when all files are complete.
   * @throws SluiceError model_invalid | usage: the key
   */
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

/** The files of a run with their blocks. */
type SeenFiles = Pick<Predicate, 'input' | 'output' | 'list'> & { blocks: ProvenBlocks };

async function* observed(chunks: AsyncIterable<Uint8Array>, see: StoredBytes): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    see(chunk);
    yield chunk;
  }
}

export interface ObservedStep {
  spec: FileRunSpec;
  model: ModelPackage;
  input: Endpoint;
  output: Endpoint;
  rejects: RejectsList;
  /** Key that signs the manifest; null if the manifest is not signed. */
  key: KeyObject | null;
  /** Blocks that the interrupted run wrote; null if the step starts from the beginning. */
  earlier: readonly ProvenBlock[] | null;
}

/**
 * Observes source, sink and rejects file of a step. Base class of the observers that write manifests and descriptions
 * of shard results.
 */
export class ProofObserver implements StepObserver {
  protected readonly of: ProofOf;
  /** Digests of the current attempt. */
  protected current: RunProof;

  /**
   * Create the observer before the rejects file of the step is opened, because the digest starts at the first byte of
   * that file.
   */
  constructor({ rejects, ...of }: ObservedStep) {
    const digests = rejects.digestsOf(of.input);
    this.of = { ...of, list: digests && { name: rejects.pathFor(of.input)!, digests } };
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

  get onInputRows(): TableRowsBytes {
    return this.current.onInputRows;
  }

  get onOutputRows(): TableRowsBytes {
    return this.current.onOutputRows;
  }

  get onConsumed(): RunProof['onConsumed'] | undefined {
    return this.current.isText ? this.current.onConsumed : undefined;
  }

  verifyWritten(stored: AsyncIterable<Uint8Array>): Promise<void> {
    return this.current.verifyWritten(stored);
  }

  tapSink({ sink }: Attempt): OpenSink {
    return this.current.sink(sink);
  }

  onBlock(block: WrittenBlock): void {
    this.current.onBlock(block);
  }

  beforeCommit(_: Readonly<RunCounts>, { source }: Attempt): Promise<void> {
    return this.current.readInput(source);
  }
}

/** Adds a manifest to the commit set of its output. */
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

/** Publishes a manifest with each output. If manifests are disabled, removes the manifest of an earlier run. */
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
