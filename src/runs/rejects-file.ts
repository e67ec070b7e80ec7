// The rejects file of a run: one for all inputs, or one for each input if its path has `{name}`.

import { STDIO } from '../connectors/stdio/stdio-connector.ts';
import { neutralField } from '../formats/delimited/delimited-formatter.ts';
import { rejectsHeader } from '../formats/delimited/rejects.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import type { CommitSet } from '../io/sink/commit-set.ts';
import { isRevocable } from '../io/sink/file-sink.ts';
import { ContentDigests } from '../proof/block-digests.ts';
import type { ProvenBlock } from '../proof/statement.ts';
import { type Endpoint, outputName } from './endpoint-specs.ts';
import { changedMeanwhile } from './plugins/checkpoint-journal.ts';
import type { RunSpec } from './spec.ts';

/** Digests of a rejects file, from its header on. */
export type ListDigests = Pick<ContentDigests, 'bytes' | 'mark' | 'digest'>;

/** The part of a list that belongs to one input. */
export interface RejectsPart {
  /** Takes lines of the list, without its header and without the input they are of. */
  write(lines: string): Promise<void>;
  /** Whether written rows can be discarded. */
  revocable(): Promise<boolean>;
  /** The part is whole: it becomes final with the set it is in. */
  keep(): Promise<void>;
  drop(): Promise<void>;
  /** Bytes of the list so far; null: there is none yet. */
  bytes(): number | null;
  /** Rows written so far survive a power failure once this resolves. @throws SluiceError output_* */
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
  /** null for no list. */
  path: string | null;
  /** The source is a pattern. */
  several: boolean;
  /** Without a rejected row, no file is written, and one of an earlier run is removed. Otherwise an empty file is written. */
  onlyIfAny: boolean;
  /** Passthrough columns, which say whose a rejected row is. */
  columns: readonly string[];
}

export class RejectsList {
  readonly #spec: RejectsSpec;
  readonly #header: Buffer;
  /** A list of all inputs, once it is open. */
  #shared: ByteSink | null = null;
  readonly #digests = new Map<string, ContentDigests>();

  constructor(spec: RejectsSpec) {
    this.#spec = spec;
    this.#header = Buffer.from(rejectsHeader(spec.columns));
  }

  /** Whether each input has a list of its own. */
  get each(): boolean {
    return this.#spec.path?.includes('{name}') ?? false;
  }

  /** Whether one list is that of several inputs: then their outputs become final with it, all at once. */
  get ofAll(): boolean {
    return this.#spec.path !== null && this.#spec.several && !this.each;
  }

  /** The path of the rejects file of an input; null: none. */
  pathFor(input: Pick<Endpoint, 'name'>): string | null {
    return this.#spec.path === null ? null : outputName(this.#spec.path, input);
  }

  /**
   * `set`: publishes the part. `earlier`: the length and blocks of the file of the run that is resumed.
   * @throws SluiceError output_* | checkpoint_mismatch: its list is not what that run left
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

  /** Starts to digest the rejects file of an input, which may be that of all inputs; null: there is none. */
  digestsOf(input: Pick<Endpoint, 'name'>): ListDigests | null {
    const file = this.pathFor(input);
    if (file === null) return null;
    const known = this.#digests.get(file);
    if (known) return known;
    const made = new ContentDigests();
    this.#digests.set(file, made);
    return made;
  }

  /** A list of all inputs is whole. @throws SluiceError output_* */
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

/** The name of the input in front of each line; a field in quotes may hold line ends. */
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

/** The rejects file of a run. */
export function rejectsOf(
  { dead_letter, score, list_only_if_any }: Pick<RunSpec, 'dead_letter' | 'score' | 'list_only_if_any'>,
  several: boolean,
): RejectsList {
  return new RejectsList({
    path: dead_letter?.type === 'file' ? dead_letter.path : null,
    several,
    onlyIfAny: list_only_if_any === true,
    columns: score.passthrough === '*' ? [] : (score.passthrough ?? []),
  });
}
