// Runs a combination through one of the ways into Sluice, in this process: what comes out, or the code of the refusal.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import YAML from 'yaml';
import { SluiceError } from '../../src/core/errors.ts';
import { driveRun } from '../../src/doors/commands/drive-run.ts';
import type { ScoreFlags, ShardsFlags } from '../../src/doors/commands/flag-tables.ts';
import { score } from '../../src/doors/commands/score.ts';
import { shards } from '../../src/doors/commands/shards.ts';
import { type Model, openModel, scoreStream } from '../../src/index.ts';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { readPipeline } from '../../src/pipeline/pipeline-config.ts';
import { type Service, startService } from '../support/service.ts';
import type { Case, ModelName } from './combinations.ts';
import { delimiterOf, type StoredInput } from './stored-input.ts';

export type Outcome =
  | { refused: string; message: string; left: string[] }
  | { bytes: Buffer; rejects: string | null; exitCode: number | null };

export const PACKAGES = [path.resolve('test/oracle/packages'), path.resolve('test/frames/packages')];
export const folderOf = (model: ModelName) => PACKAGES[model === 'typed-columns' ? 1 : 0]!;

/** What lasts for all combinations of a process: models with their workers, a service, a folder for files. */
export class World {
  readonly folder: string;
  readonly #models = new Map<ModelName, Promise<Model>>();
  #service: Promise<Service> | null = null;

  constructor(folder: string) {
    this.folder = folder;
  }

  model(name: ModelName): Promise<Model> {
    const known = this.#models.get(name);
    if (known) return known;
    const opened = openModel(name, { registry: folderOf(name), workers: 1 });
    this.#models.set(name, opened);
    return opened;
  }

  service(): Promise<Service> {
    const folder = path.join(this.folder, 'service');
    mkdirSync(folder, { recursive: true });
    this.#service ??= startService([], folder, { registry: new FolderRegistry(PACKAGES), keep: true });
    return this.#service;
  }

  /** An empty folder for the files of one run. */
  empty(): string {
    const folder = path.join(this.folder, 'run');
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    return folder;
  }

  async close(): Promise<void> {
    for (const model of this.#models.values()) await (await model).close();
    await (await this.#service)?.running.stop();
  }
}

export const runCase = (c: Case, stored: StoredInput, world: World): Promise<Outcome> =>
  RUNS[c.entry](c, stored, world);

const RUNS: Record<Case['entry'], (c: Case, stored: StoredInput, world: World) => Promise<Outcome>> = {
  command: (c, stored, world) =>
    files(c, stored, world, (file, out) => score(file, scoreFlags(c, stored, out)), { out: 'out' }),
  pipeline: (c, stored, world) =>
    files(c, stored, world, async (file, out) => {
      const pipeline = path.join(world.folder, 'run', 'crossing.yaml');
      writeFileSync(pipeline, YAML.stringify(pipelineFile(c, stored, file, out)));
      const options = { name: 'crossing', registry: folderOf(c.model), quiet: true };
      return driveRun({ ...(await readPipeline(pipeline)), resume: 'always' }, options);
    }, { out: 'out' }), // biome-ignore format: parts
  shards: (c, stored, world) =>
    files(c, stored, world, async (file, out) => {
      let code = 0;
      for (let shard = 0; shard < 3; shard++) code = Math.max(code, await shards(file, shardFlags(c, stored, out, shard)));
      return code;
    }, { out: 'out' }), // biome-ignore format: parts
  library,
  http,
};

export const ENDINGS = { none: '', gzip: '.gz', zstd: '.zst' } as const;
export const unpacked = (bytes: Buffer, { outputCompression }: Case): Buffer =>
  outputCompression === 'none' ? bytes : outputCompression === 'gzip' ? gunzipSync(bytes) : framesOf(bytes);

/** Decompresses every frame: the function of Node ends with the first, and a resumed output has several. */
function framesOf(bytes: Buffer): Buffer {
  const frames: Buffer[] = [];
  for (let rest = bytes; rest.length > 0; ) {
    const { buffer, engine } = zstdDecompressSync(rest, { info: true } as never) as unknown as {
      buffer: Buffer;
      engine: { bytesWritten: number };
    };
    frames.push(buffer);
    rest = rest.subarray(engine.bytesWritten);
  }
  return Buffer.concat(frames);
}

/** A run between files: the names say the formats, as people have them. */
async function files(
  c: Case,
  stored: StoredInput,
  world: World,
  run: (file: string, out: string) => Promise<number>,
  { out: stem }: { out: string },
): Promise<Outcome> {
  const folder = world.empty();
  const file = path.join(folder, `in.${c.input}${ENDINGS[c.inputCompression]}`);
  const out = path.join(folder, `${stem}.${c.output}${ENDINGS[c.outputCompression]}`);
  writeFileSync(file, stored.bytes);
  const rejects = `${out}.rejects.csv`;
  try {
    const exitCode = await run(file, out);
    const bytes = unpacked(readFileSync(out), c);
    return { bytes, rejects: existsSync(rejects) ? readFileSync(rejects, 'utf8') : null, exitCode };
  } catch (error) {
    const known = [path.basename(file), 'crossing.yaml', 'work'];
    return refusal(
      error,
      readdirSync(folder).filter((name) => !known.includes(name)),
    );
  }
}

export function refusal(error: unknown, left: string[] = []): Outcome {
  if (!(error instanceof SluiceError)) throw error;
  return { refused: error.code, message: error.message, left };
}

const listOf = (names: string[] | '*'): string => (names === '*' ? '*' : names.join(','));
const pairsOf = (pairs: Record<string, string>): string =>
  Object.entries(pairs).map(([name, value]) => `${name}=${value}`).join(','); // biome-ignore format: one line

/** What all commands take. */
function commonFlags(c: Case): Pick<ScoreFlags, 'model' | 'registry' | 'delimiter' | 'quiet' | 'blockBytes'> {
  const delimited = c.input === 'csv' || c.input === 'tsv';
  return {
    model: c.model,
    registry: folderOf(c.model),
    ...(delimited ? { delimiter: c.input === 'tsv' ? ('tab' as const) : c.delimiter } : {}),
    quiet: true,
    blockBytes: c.tuning.blockBytes,
  };
}

const interpretationFlags = ({ interpretation }: Case): Pick<ScoreFlags, 'interpretation' | 'top' | 'interpretBelow'> => ({
  ...(interpretation === 'none' ? {} : { interpretation: true }),
  ...(interpretation === 'top' ? { top: 2 } : {}),
  ...(interpretation === 'below' ? { interpretBelow: 0.6 } : {}),
}); // biome-ignore format: a table

export function scoreFlags(c: Case, { declared }: StoredInput, output: string): ScoreFlags {
  const { names, rename, ignore, constants, encoding, decimal, thousands, trim, null_values: nullValues } = declared;
  const flags = {
    ...commonFlags(c),
    ...interpretationFlags(c),
    output,
    format: c.output,
    inputFormat: c.input,
    onInvalid: c.onInvalid,
    ...(c.allowEmpty ? { allowEmpty: true } : {}),
    ...(c.rejects ? { rejects: `${output}.rejects.csv` } : {}),
    ...(c.maxRejects === null ? {} : { maxRejects: c.maxRejects }),
    passthrough: listOf(c.passthrough),
    workers: c.tuning.workers,
    batchRows: c.tuning.batchRows,
    readBytes: c.tuning.readBytes,
    ...(names ? { columns: names.join(',') } : {}),
    ...(rename ? { rename: pairsOf(rename) } : {}),
    ...(ignore ? { ignore: listOf(ignore) } : {}),
    ...(constants ? { constants: pairsOf(constants) } : {}),
    ...(encoding ? { encoding: encoding as never } : {}),
    ...(decimal ? { decimal } : {}),
    ...(thousands ? { thousands } : {}),
    ...(trim ? { trim } : {}),
    ...(nullValues ? { nullValues: nullValues.join(',') } : {}),
  };
  // The parser takes --no-manifest for this.
  return c.manifest ? flags : ({ ...flags, manifest: false } as ScoreFlags);
}

function shardFlags(c: Case, _: StoredInput, output: string, shard: number): ShardsFlags {
  const flags = {
    ...commonFlags(c),
    ...interpretationFlags(c),
    inputFormat: c.input,
    shards: 3,
    shard,
    work: path.join(path.dirname(output), 'work'),
    output,
    planWait: 5,
    passthrough: listOf(c.passthrough),
    workers: c.tuning.workers,
    ...(c.allowEmpty ? { allowEmpty: true } : {}),
    ...(c.rejects ? { rejects: `${output}.rejects.csv` } : {}),
    ...(c.maxRejects === null ? {} : { maxRejects: c.maxRejects }),
  };
  return c.manifest ? flags : ({ ...flags, manifest: false } as ShardsFlags);
}

/** The same as a pipeline file; standard streams belong to the process, so that both ends are files. */
function pipelineFile(c: Case, { declared }: StoredInput, file: string, out: string): object {
  const { names, rename, ignore, constants, ...rest } = declared;
  const delimited = c.input === 'csv' || c.input === 'tsv';
  const columns = { ...(names ? { names } : {}), ...(rename ? { rename } : {}), ...(ignore ? { ignore } : {}), ...(constants ? { constants } : {}) }; // biome-ignore format: one line
  const { interpretation } = c;
  return {
    model: c.model,
    source: {
      type: 'file',
      path: file,
      format: c.input,
      ...(c.inputCompression === 'none' ? {} : { compression: c.inputCompression }),
      ...(delimited ? { delimiter: c.input === 'tsv' ? 'tab' : c.delimiter } : {}),
      ...(names ? { header: false } : {}),
      ...(Object.keys(columns).length > 0 ? { columns } : {}),
      ...rest,
    },
    score: {
      passthrough: c.passthrough,
      ...(interpretation === 'none' ? {} : { interpretation: 'effects' }),
      ...(interpretation === 'top' ? { top_effects: 2 } : {}),
      ...(interpretation === 'below' ? { interpret_below: 0.6 } : {}),
      workers: c.tuning.workers,
      batch_rows: Math.max(1, c.tuning.batchRows),
    },
    sink: {
      type: 'file',
      path: out,
      format: c.output,
      ...(c.output === 'csv' || c.output === 'tsv'
        ? { delimiter: c.output === 'tsv' ? 'tab' : outputDelimiter(c) }
        : {}),
      ...(c.outputCompression === 'none' ? {} : { compression: c.outputCompression }),
    },
    ...(c.rejects ? { dead_letter: { type: 'file', path: `${out}.rejects.csv` }, on_invalid: c.onInvalid === 'fail' ? 'fail' : 'dead_letter' } : { on_invalid: c.onInvalid }), // biome-ignore format: one line
    ...(c.allowEmpty ? { allow_empty: true } : {}),
    ...(c.manifest ? {} : { manifest: false }),
    ...(c.maxRejects === null ? {} : { gate: { max_rejects: c.maxRejects } }),
  };
}

/** The delimiter of CSV output: that of delimited input, except tabs; TSV has tabs. */
export function outputDelimiter(c: Case): string {
  const names = { ',': 'comma', ';': 'semicolon', '|': 'pipe', '\t': 'comma' } as const;
  const delimited = c.input === 'csv' || c.input === 'tsv';
  return delimited ? names[delimiterOf(c) as keyof typeof names] : 'comma';
}

async function library(c: Case, { bytes }: StoredInput, world: World): Promise<Outcome> {
  const model = await world.model(c.model);
  const step = Math.max(1, Math.min(c.tuning.readBytes, bytes.length));
  const pieces = (async function* () {
    for (let at = 0; at < bytes.length; at += step) yield bytes.subarray(at, at + step);
  })();
  const chunks: Buffer[] = [];
  try {
    const stream = scoreStream(model, pieces, {
      format: c.input as 'csv',
      output: c.output as 'csv',
      ...(c.input === 'csv' || c.output === 'csv' ? { delimiter: c.delimiter } : {}),
      passthrough: c.passthrough,
      interpretation: c.interpretation === 'none' ? 'none' : 'effects',
      onInvalid: c.onInvalid,
    });
    for await (const chunk of stream) chunks.push(Buffer.from(chunk));
    const counts = await stream.counts;
    if (counts.rows !== counts.scored + counts.rejected) throw new Error('rows are lost in the counts');
    return { bytes: Buffer.concat(chunks), rejects: null, exitCode: null };
  } catch (error) {
    return refusal(error);
  }
}

async function http(c: Case, { bytes }: StoredInput, world: World): Promise<Outcome> {
  const service = await world.service();
  const operation = c.interpretation === 'none' ? 'predict' : 'predict/interpretation';
  const query = new URLSearchParams({
    modelId: c.model,
    ...(c.input === 'csv' ? { delimiter: c.delimiter } : {}),
    ...(c.passthrough.length > 0 ? { passthrough: listOf(c.passthrough) } : {}),
    ...(c.interpretation === 'top' ? { top_effects: '2' } : {}),
    ...(c.onInvalid === 'fail' ? { on_invalid: 'fail' } : {}),
  });
  const url = `/api/v1/scoring/${operation}.${c.input}?${query}`;
  const answer = await service.call('POST', url, { body: bytes, ...(c.job ? { headers: { prefer: 'respond-async' } } : {}) }); // biome-ignore format: one line
  // Some formats are answered at once, whatever was preferred.
  if (!c.job || answer.status === 200) {
    if (answer.status === 200) return { bytes: answer.bytes, rejects: null, exitCode: null };
    return { refused: answer.json.code, message: answer.text, left: [] };
  }
  if (answer.status !== 201) return { refused: answer.json.code, message: answer.text, left: [] };
  const location = answer.headers.location as string;
  for (;;) {
    const { json } = await service.call('GET', location);
    if (json.state === 'succeeded' || json.state === 'done' || json.state === 'completed') break;
    if (json.state === 'failed')
      return { refused: json.error?.code ?? 'none', message: JSON.stringify(json.error), left: [] };
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  const result = await service.call('GET', `${location}/result`);
  await service.call('DELETE', location);
  return { bytes: result.bytes, rejects: null, exitCode: null };
}
