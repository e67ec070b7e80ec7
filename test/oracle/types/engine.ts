// Scores bytes in this process through the engine of every entry point, without the files that a command would write.
import { SluiceError } from '../../../src/core/errors.ts';
import type { FileFormat } from '../../../src/core/file-format.ts';
import { WorkerPool } from '../../../src/engine/worker-pool.ts';
import { formatEntry } from '../../../src/formats/formats.ts';
import type { ByteSink } from '../../../src/io/sink/byte-sink.ts';
import type { ByteSource, Chunks } from '../../../src/io/source/byte-source.ts';
import type { ModelPackage } from '../../../src/model/package/model-package.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { RunAccount } from '../../../src/runs/account.ts';
import { runOnce } from '../../../src/runs/run-once.ts';
import type { Declared } from '../oracle.ts';

export interface Scored {
  /** The output; null: the input was refused. */
  bytes: Buffer | null;
  /** The code of the refusal. */
  refused: string | null;
  message: string;
}

const LIMITS = { recordBytes: 1 << 20 };
const DELIMITERS = { csv: ',', tsv: '\t' } as const;

async function chunksOf(bytes: Buffer, format: FileFormat): Promise<Chunks> {
  const { table } = formatEntry(format);
  const chunks = (async function* () {
    yield bytes;
  })();
  if (!table) return chunks;
  const stored: ByteSource = {
    chunks,
    totalBytes: bytes.length,
    bytesRead: () => bytes.length,
    slice: async (from, to) => Uint8Array.from(bytes.subarray(from, to)),
    close: async () => {},
  };
  const { openReader } = await table();
  const ignored = () => false;
  const named = { name: `in.${format}`, stored, chunks, compression: 'none' as const };
  return (await openReader(named, { ignored, limits: LIMITS })).chunks;
}

export class Engine {
  readonly #model: ModelPackage;
  readonly #pool: WorkerPool;

  private constructor(model: ModelPackage, pool: WorkerPool) {
    this.#model = model;
    this.#pool = pool;
  }

  static async open(registry: string, id: string): Promise<Engine> {
    const model = await new FolderRegistry([registry]).resolve(id);
    return new Engine(model, await WorkerPool.start({ model, engine: 'auto', workers: 1 }));
  }

  async score(
    bytes: Buffer,
    input: FileFormat,
    declared: Declared,
    { passthrough = [] as string[], output = 'ndjson' as FileFormat } = {},
  ): Promise<Scored> {
    const { rename = {}, ignore = [], constants = {}, decimal, thousands, trim, null_values } = declared;
    const texts = { decimal: decimal ?? 'point', thousands: thousands ?? null, trim: trim === true, nullValues: null_values ?? [] }; // biome-ignore format: one line
    const hasTexts =
      decimal !== undefined || thousands !== undefined || trim !== undefined || null_values !== undefined;
    const declaration = {
      columns: { names: null, rename, ignore, constants },
      texts: hasTexts ? texts : null,
      encoding: null,
    };
    const parts: Buffer[] = [];
    const inner: ByteSink = {
      write: async (more) => void parts.push(Buffer.from(more)),
      commit: async () => {},
      abort: async () => {},
      revocable: true,
      bytesWritten: 0,
    };
    const { table } = formatEntry(output);
    const writing = { name: `out.${output}`, compression: 'none' as const, compressed: async (b: ByteSink) => b, manifest: this.#model.manifest, interpretation: null, passthrough, lines: false }; // biome-ignore format: one line
    try {
      const sink = table ? await (await table()).openWriter(inner, writing) : inner;
      const delimited = input === 'csv' || input === 'tsv';
      await runOnce({
        model: this.#model,
        pool: this.#pool,
        source: {
          chunks: await chunksOf(bytes, input),
          input: {
            ...(delimited
              ? { format: 'delimited' as const, delimiter: DELIMITERS[input] }
              : { format: input === 'json' ? ('json' as const) : ('ndjson' as const) }),
            declared: declaration,
          },
        },
        scoring: { passthrough, interpretation: null, limits: {}, failOnInvalid: false },
        sink: {
          output: { format: table ? 'columns' : (output as 'csv'), delimiter: output === 'tsv' ? '\t' : ',' },
          write: (more: Uint8Array) => sink.write(more),
          commit: () => sink.commit(),
          abort: () => sink.abort(),
        },
        account: new RunAccount().unit(),
      });
      return { bytes: Buffer.concat(parts), refused: null, message: '' };
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error;
      return { bytes: null, refused: error.code, message: error.message };
    }
  }

  close(): Promise<void> {
    return this.#pool.close();
  }
}
