// The list of rejected rows beside the outputs of a run: one for all inputs, or one an input where its path has `{name}`.
import { neutralField } from '../io/format/delimited.ts';
import { REJECTS_HEADER } from '../io/format/rejects.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import { isRevocable, openFileSink } from '../io/sink/file-sink.ts';
import { type Endpoint, outputName } from './endpoints.ts';

/** The part of a list that belongs to one input; final once it is kept. */
export interface RejectsPart {
  /** Takes lines of the list, without its header. */
  write(lines: string): Promise<void>;
  /** Whether what was written can be discarded. */
  revocable(): Promise<boolean>;
  keep(): Promise<void>;
  drop(): Promise<void>;
}

const NOTHING: RejectsPart = {
  write: async () => {},
  revocable: async () => true,
  keep: async () => {},
  drop: async () => {},
};

export class RejectsList {
  readonly #path: string | null;
  /** Whether lines name their input. */
  readonly #named: boolean;
  #sink: ByteSink | null = null;

  /** `path`: null for no list. `several`: the source is a pattern. */
  constructor(path: string | null, { several }: { several: boolean }) {
    this.#path = path;
    this.#named = several && path !== null && !path.includes('{name}');
  }

  /** Whether each input has a list of its own. */
  get each(): boolean {
    return this.#path?.includes('{name}') ?? false;
  }

  /** The path of the list that an input's rejected rows stand in; null for none. */
  pathFor(input: Endpoint): string | null {
    return this.#path === null ? null : outputName(this.#path, input);
  }

  part(input: Endpoint): RejectsPart {
    const file = this.pathFor(input);
    if (file === null) return NOTHING;
    return this.#named || !this.#path!.includes('{name}') ? this.#shared(file, input) : ownList(file);
  }

  /** Puts a list of all inputs in place. @throws SluiceError output_* */
  async commit(): Promise<void> {
    const sink = this.#sink;
    this.#sink = null;
    await sink?.commit();
  }

  async abort(): Promise<void> {
    await this.#sink?.abort();
    this.#sink = null;
  }

  #shared(file: string, input: Endpoint): RejectsPart {
    const before = this.#sink?.bytesWritten ?? 0;
    const prefix = this.#named ? `${neutralField(input.name, ',')},` : '';
    return {
      write: async (lines) => {
        this.#sink ??= await openList(file, this.#named ? `input,${REJECTS_HEADER}` : REJECTS_HEADER);
        await this.#sink.write(Buffer.from(prefix === '' ? lines : prefixed(lines, prefix)));
      },
      revocable: () => isRevocable(file),
      // Of one input it is in place before the output is; of several when the last of them is done.
      keep: async () => (this.#named ? undefined : this.commit()),
      drop: async () => {
        if (before > 0) await this.#sink?.rewind?.(before);
        else await this.abort();
      },
    };
  }
}

/** A list of one input, in place as soon as it is kept. */
function ownList(file: string): RejectsPart {
  let sink: ByteSink | null = null;
  return {
    write: async (lines) => {
      sink ??= await openList(file, REJECTS_HEADER);
      await sink.write(Buffer.from(lines));
    },
    revocable: () => isRevocable(file),
    keep: async () => sink?.commit(),
    drop: async () => sink?.abort(),
  };
}

/** Lines with `prefix` in front of each; a field in quotes may hold line ends. */
function prefixed(lines: string, prefix: string): string {
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

async function openList(file: string, header: string): Promise<ByteSink> {
  const sink = await openFileSink(file);
  await sink.write(Buffer.from(header));
  return sink;
}
