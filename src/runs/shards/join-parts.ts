// Joins the outputs and rejects files of shards, and computes the digests of the joined files for the manifest.

import type { KeyObject } from 'node:crypto';
import type { GateLimits } from '../../config/options/gate-limits.ts';
import { besideStored, openStored } from '../../connectors/stored-bytes.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Compression } from '../../core/file-format.ts';
import { manifestNameOf } from '../../core/file-names.ts';
import { rejectsHeader } from '../../formats/delimited/rejects.ts';
import { namedFormat } from '../../formats/formats.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import type { CommitSet } from '../../io/sink/commit-set.ts';
import type { Chunks } from '../../io/source/byte-source.ts';
import { checked } from '../../io/source/byte-taps.ts';
import { FileDigest } from '../../proof/block-digests.ts';
import { packedSink, plainOf, seenSink } from '../byte-ends.ts';
import { addManifest } from '../plugins/manifest-content.ts';
import type { FoundPart, StoredFile } from '../plugins/shard-part.ts';
import { JoinedList, type JoinedOutput, type MergedFile, mergedManifest } from './merged-proof.ts';
import type { ShardPlan } from './shard-plan.ts';

interface JoinOptions {
  plan: ShardPlan;
  set: CommitSet;
  /** Whether to write the rejects file even if no row was rejected. */
  always: boolean;
  allowEmpty: boolean;
  /** The limits of the gate, which all inputs met; null without a gate. */
  gate: GateLimits | null;
  /** Null if no manifests are written. `key` is null if manifests are not signed. */
  manifest: { key: KeyObject | null } | null;
}

/**
 * Writes the outputs, rejects files and manifests of all inputs into a set.
 * @throws SluiceError parts_mismatch: a shard result was changed | output_*
 */
export async function joinParts(files: readonly MergedFile[], options: JoinOptions): Promise<void> {
  const { plan, set, allowEmpty, gate, manifest } = options;
  const outputs = new Map<MergedFile, JoinedOutput>();
  for (const file of files) outputs.set(file, await joinOutput(file, set));
  const lists = new Map<string, MergedFile[]>();
  for (const file of files) lists.set(file.list, [...(lists.get(file.list) ?? []), file]);
  for (const [name, of] of lists) {
    const seen = await joinLists(name, of, options);
    const list = seen && { name, seen, stored: seen.end() };
    for (const merged of of) {
      // An existing manifest would describe the output of an earlier run.
      if (manifest === null) await set.remove(manifestNameOf(merged.output));
      else {
        const proof = { plan, merged, output: outputs.get(merged)!, list, allowEmpty, gate, key: manifest.key };
        await addManifest(set, merged.output, await mergedManifest(proof));
      }
    }
  }
}

async function joinOutput({ output, parts }: MergedFile, set: CommitSet): Promise<JoinedOutput> {
  const { compression } = namedFormat(output);
  const [stored, content] = [new FileDigest(), new FileDigest()];
  const file = await set.open(output);
  const sink = await packedSink(
    compression === 'none' ? file : seenSink(file, (bytes) => stored.add(bytes)),
    compression,
  );
  const before: number[] = [];
  for (const part of parts) {
    before.push(content.digest.bytes);
    for await (const chunk of await plainOf(openPart(part, part.output), compressionOf(part))) {
      content.add(chunk);
      await sink.write(chunk);
    }
  }
  await sink.commit();
  return { stored: (compression === 'none' ? content : stored).digest, before };
}

/** Returns null if no rejects file is written. */
async function joinLists(
  list: string,
  files: readonly MergedFile[],
  { set, always }: JoinOptions,
): Promise<JoinedList | null> {
  const any = files.some(({ parts }) => parts.some(({ rejects }) => rejects !== null));
  if (!any && !always) {
    await set.remove(list);
    return null;
  }
  const columns = files[0]!.parts[0]!.made_by.options.score.passthrough;
  const header = Buffer.from(rejectsHeader(Array.isArray(columns) ? columns : []));
  const seen = new JoinedList(header);
  const sink = await set.open(list, { beside: true });
  await sink.write(header);
  for (const { parts } of files) {
    for (const part of parts) {
      if (part.rejects === null) continue;
      const lines = withoutHeader(openPart(part, part.rejects), header, part.path);
      await seen.add(part, written(lines, sink));
    }
  }
  await sink.commit();
  return seen;
}

/** Writes chunks to a sink and passes them on. */
async function* written(chunks: AsyncIterable<Uint8Array>, sink: ByteSink): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    await sink.write(chunk);
    yield chunk;
  }
}

const compressionOf = ({ made_by, output }: FoundPart): Compression =>
  (made_by.options.sink.compression as Compression | undefined) ?? namedFormat(output.name).compression;

/** Opens the raw bytes of one file of a shard result. Reading fails unless the bytes match the description. */
export function openPart({ path }: FoundPart, { name, bytes, sha256 }: StoredFile): Chunks {
  const file = besideStored(path, name);
  const changed = () =>
    new SluiceError('parts_mismatch', `${file} was changed after its shard ended: score the shard again`);
  return {
    async *[Symbol.asyncIterator]() {
      const source = await openStored(file);
      try {
        yield* checked(source.chunks, [{ bytes, sha256 }], changed);
      } finally {
        await source.close();
      }
    },
  };
}

/** Removes the header. @throws SluiceError parts_mismatch: the file does not begin with the header */
async function* withoutHeader(chunks: Chunks, header: Buffer, name: string): AsyncGenerator<Uint8Array> {
  let due = header;
  for await (const chunk of chunks) {
    const n = Math.min(due.length, chunk.length);
    if (Buffer.compare(chunk.subarray(0, n), due.subarray(0, n)) !== 0) {
      throw new SluiceError(
        'parts_mismatch',
        `the rejects file of ${name} has unexpected columns: score the shard again`,
      );
    }
    due = due.subarray(n);
    if (chunk.length > n) yield chunk.subarray(n);
  }
}
