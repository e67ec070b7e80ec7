// The rejects file of a run: one file for all inputs, or one for each input if the path contains `{name}`.

import { STDIO } from '../connectors/stdio/stdio-connector.ts';
import { neutralField } from '../formats/delimited/delimited-formatter.ts';
import { REJECTS_COLUMNS, rejectsHeader } from '../formats/delimited/rejects.ts';
import { refuseHidden } from '../formats/write/prediction-fields.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import type { CommitSet } from '../io/sink/commit-set.ts';
import { isRevocable } from '../io/sink/file-sink.ts';
import { ContentDigests } from '../proof/block-digests.ts';
import type { ProvenBlock } from '../proof/statement.ts';
import { type Endpoint, outputName } from './endpoint-specs.ts';
import { changedMeanwhile } from './plugins/checkpoint-journal.ts';
import type { RunSpec } from './spec.ts';

/** Digests of a rejects file, including its header. */
export type ListDigests = Pick<ContentDigests, 'bytes' | 'mark' | 'digest'>;

/** The rows of one input in a rejects file. */
export interface RejectsPart {
  /** Writes lines without a header and without a column for the input's name. */
  write(lines: string): Promise<void>;
  /** Whether written rows can be discarded. */
  revocable(): Promise<boolean>;
  /** Keeps the rows, so that the commit set publishes them. */
  keep(): Promise<void>;
  drop(): Promise<void>;
  /** Current length of the rejects file in bytes; null if it does not exist yet. */
  bytes(): number | null;
  /** Flushes the rows written so far, so that they survive a power failure. @throws SluiceError output_* */
  sync(): Promise<void>;
}

const NOTHING: RejectsPart = {
  write: async () => {},
  revocable: async () => true,
  keep: async () => {},
  drop: async () => {},
  bytes: () => null,
  sync: async () => {},
};

interface RejectsSpec {
  /** Null if the run has no rejects file. */
  path: string | null;
  /** Whether the source is a pattern. */
  several: boolean;
  /**
   * If no row is rejected, removes the file of an earlier run and writes none. Otherwise, a file with only a header is
   * written.
   */
  onlyIfAny: boolean;
  /** Passthrough columns, which identify the applicant of a rejected row. */
  columns: readonly string[];
}

export class RejectsList {
  readonly #spec: RejectsSpec;
  readonly #header: Buffer;
  /** The rejects file shared by all inputs, once it is open. */
  #shared: ByteSink | null = null;
  readonly #digests = new Map<string, ContentDigests>();

  constructor(spec: RejectsSpec) {
    this.#spec = spec;
    this.#header = Buffer.from(rejectsHeader(spec.columns));
  }

  /** Whether each input has its own rejects file. */
  get each(): boolean {
    return this.#spec.path?.includes('{name}') ?? false;
  }

  /**
   * Whether several inputs share one rejects file. The outputs of these inputs are then published together with the
   * rejects file.
   */
  get ofAll(): boolean {
    return this.#spec.path !== null && this.#spec.several && !this.each;
  }

  /** The path of an input's rejects file; null if the run has none. */
  pathFor(input: Pick<Endpoint, 'name'>): string | null {
    return this.#spec.path === null ? null : outputName(this.#spec.path, input);
  }

  /**
   * Opens the rows of an input in a rejects file, which `set` publishes. `from`, `blocks`: length and blocks of the
   * rejects file that an interrupted run wrote.
   * @throws SluiceError output_* | checkpoint_mismatch: the file changed since the interrupted run
   */
  async part(
    input: Pick<Endpoint, 'name'>,
    set: CommitSet,
    { from, blocks }: { from: number | null; blocks: readonly ProvenBlock[] } = { from: null, blocks: [] },
  ): Promise<RejectsPart> {
    const file = this.pathFor(input);
    if (file === null) return NOTHING;
    if (this.ofAll) return this.#partOfAll(file, input, set);
    if (from === null) return this.#own(file, input, { set, before: null });
    const before = await set.open(file, { beside: true, from });
    const digests = this.#digests.get(file);
    const marks = blocks.flatMap(({ list }) => list ?? []);
    if (before.earlier && digests && !(await digests.readAgain(before.earlier(), marks)))
      throw changedMeanwhile('the rejects file');
    return this.#own(file, input, { set, before: this.#seen(file, before) });
  }

  /**
   * Starts to digest the rejects file of an input; inputs that share the file share the digests. Null if there is no
   * rejects file.
   */
  digestsOf(input: Pick<Endpoint, 'name'>): ListDigests | null {
    const file = this.pathFor(input);
    if (file === null) return null;
    const known = this.#digests.get(file);
    if (known) return known;
    const made = new ContentDigests();
    this.#digests.set(file, made);
    return made;
  }

  /** Completes a rejects file that all inputs share. @throws SluiceError output_* */
  async end(set: CommitSet): Promise<void> {
    if (!this.ofAll) return;
    if (this.#shared === null && this.#spec.onlyIfAny) return set.remove(this.#spec.path!);
    this.#shared ??= await this.#open(this.#spec.path!, set);
    await this.#shared.commit();
  }

  async #open(file: string, set: CommitSet): Promise<ByteSink> {
    const sink = this.#seen(file, await set.open(file, { beside: true }));
    await sink.write(this.#header);
    return sink;
  }

  #seen(file: string, sink: ByteSink): ByteSink {
    const digests = this.#digests.get(file);
    if (!digests) return sink;
    return {
      ...sink,
      get bytesWritten() {
        return sink.bytesWritten;
      },
      write: (bytes) => {
        digests.add(bytes);
        return sink.write(bytes);
      },
    };
  }

  #own(
    file: string,
    input: Pick<Endpoint, 'name'>,
    { set, before }: { set: CommitSet; before: ByteSink | null },
  ): RejectsPart {
    let sink = before;
    const forget = this.#digests.get(file)?.save();
    return {
      bytes: () => sink?.bytesWritten ?? null,
      sync: async () => sink?.sync?.(),
      write: async (lines) => {
        sink ??= await this.#open(file, set);
        await sink.write(Buffer.from(withInput(lines, input)));
      },
      revocable: () => isRevocable(file),
      keep: async () => {
        if (sink === null && this.#spec.onlyIfAny) return set.remove(file);
        sink ??= await this.#open(file, set);
        await sink.commit();
      },
      drop: async () => {
        await sink?.abort();
        sink = null;
        forget?.();
      },
    };
  }

  #partOfAll(file: string, input: Pick<Endpoint, 'name'>, set: CommitSet): RejectsPart {
    const before = this.#shared?.bytesWritten ?? 0;
    const forget = this.#digests.get(file)?.save();
    return {
      bytes: () => this.#shared?.bytesWritten ?? null,
      sync: async () => this.#shared?.sync?.(),
      write: async (lines) => {
        this.#shared ??= await this.#open(file, set);
        await this.#shared.write(Buffer.from(withInput(lines, input)));
      },
      revocable: () => isRevocable(file),
      keep: async () => {},
      drop: async () => {
        forget?.();
        if (before > 0) return this.#shared?.rewind?.(before);
        await this.#shared?.abort();
        this.#shared = null;
      },
    };
  }
}

/** Prefixes each record with the name of the input. Line ends inside quotes do not end a record. */
function withInput(lines: string, { name }: Pick<Endpoint, 'name'>): string {
  const prefix = `${neutralField(name === STDIO ? 'stdin' : name, ',')},`;
  let quotes = 0;
  let start = true;
  let out = '';
  for (const piece of lines.split(/(?<=\n)/)) {
    out += start ? prefix + piece : piece;
    quotes += piece.split('"').length - 1;
    start = quotes % 2 === 0;
  }
  return out;
}

/**
 * Creates the rejects list of a run.
 * @throws SluiceError header_mismatch: a passthrough column has the name of a column of the rejects file
 */
export function rejectsOf(
  { dead_letter, score, list_only_if_any }: Pick<RunSpec, 'dead_letter' | 'score' | 'list_only_if_any'>,
  several: boolean,
): RejectsList {
  const path = dead_letter?.type === 'file' ? dead_letter.path : null;
  const columns = score.passthrough === '*' ? [] : (score.passthrough ?? []);
  // Readers with named columns would silently keep only one of two columns with the same name.
  if (path !== null) refuseHidden(columns, REJECTS_COLUMNS, 'column of the rejects file');
  return new RejectsList({ path, several, onlyIfAny: list_only_if_any === true, columns });
}
