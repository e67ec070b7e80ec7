// Scores an upload to a pipeline endpoint. The predictions go to a topic or a file, exactly once per upload.

import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { connectorOf } from '../connectors/connectors.ts';
import { storedBytes } from '../connectors/stored-bytes.ts';
import type { UploadSource } from '../connectors/upload/upload-options.ts';
import { SluiceError } from '../core/errors.ts';
import type { RunCounts } from '../engine/counts.ts';
import type { HostedModel } from '../engine/model-host.ts';
import type { ScoredPart } from '../engine/protocol.ts';
import { CommitSet } from '../io/sink/commit-set.ts';
import { canonicalJson, type JsonValue } from '../proof/canonical-json.ts';
import type { UnitAccount } from './account.ts';
import type { OpenSink } from './byte-ends.ts';
import { endpoint, outputEndpoint } from './endpoint-specs.ts';
import { openSink, openSource } from './endpoints.ts';
import { rejectsOf } from './rejects-file.ts';
import { runOnce } from './run-once.ts';
import type { Scoring } from './spec.ts';
import { echoOf, interpretationOf, type RunSpec, scoringOf } from './spec.ts';

export interface UploadSpec extends RunSpec {
  source: UploadSource;
}

interface UploadRun {
  spec: UploadSpec;
  /** Name of the pipeline. */
  name: string;
  /** Unique id of the upload. */
  id: string;
  /** Owner of the upload. Uploads of one owner share the owner's turns at the workers. */
  owner: string;
  /** Path or object name of the stored upload, which can be read again. */
  file: string;
  /** SHA-256 that the upload had when it was acknowledged, in hexadecimal; null if it was not recorded. */
  sha256: string | null;
  /** Trace (`traceparent`) that the prediction records continue; null if there is none. */
  trace: string | null;
  hosted: HostedModel;
  /** Limits of an upload. */
  limits: Scoring['limits'];
  account: UnitAccount;
  signal: AbortSignal;
  /** Called after a block result was written. `bytesRead`: bytes of the upload read so far. */
  onPart: (part: ScoredPart, bytesRead: number) => void;
  beforeCommit: (counts: Readonly<RunCounts>) => void;
}

/** Description of an upload's output for people. */
export const uploadTarget = ({ sink }: UploadSpec, id: string): string =>
  outputEndpoint(sink, { name: id })?.name ?? `topic ${connectorOf(sink).nameOf(sink)}`;

/**
 * Scores an upload into the sink of its pipeline. A retry after a failure produces the same file or, in a topic,
 * continues after the records already written.
 * @throws SluiceError any error that ends the run
 */
export async function runUpload(run: UploadRun): Promise<Readonly<RunCounts>> {
  const { spec, id, file, hosted } = run;
  const { format } = spec.source;
  const source = await openSource({
    ...endpoint('upload', { ...spec.source, compression: 'none' }, format),
    name: file,
    recordBytes: spec.score.record_bytes,
  });
  const set = new CommitSet();
  try {
    const sink = await openUploadSink(run, set);
    const scoring = scoringOf(spec, echoOf(spec.sink));
    return await runOnce({
      model: hosted.model,
      pool: hosted.pool,
      source: { chunks: source.chunks, input: source.input },
      scoring: { ...scoring, limits: { ...run.limits, ...scoring.limits } },
      sink,
      rejects: await rejectsOf(spec, false).part({ name: id }, set),
      publish: () => set.publish(),
      account: run.account,
      owner: run.owner,
      signal: run.signal,
      onPart: (part) => run.onPart(part, source.bytesRead()),
      beforeCommit: (counts) => {
        source.checkTotals?.(counts.rows);
        run.beforeCommit(counts);
      },
    });
  } finally {
    await set.abort();
    await source.close();
  }
}

async function openUploadSink(run: UploadRun, set: CommitSet): Promise<OpenSink> {
  const { spec, name, id, file, sha256, trace, hosted } = run;
  const { sink } = spec;
  const connector = connectorOf(sink);
  if (connector.openUploadSink) {
    const { manifest, sha256: packageSha256 } = hosted.model;
    const identity = uploadIdentity(run);
    const beforeResume = async (earlier: string | null) => {
      assertSameIdentity(earlier, identity);
      await assertUnchanged(file, sha256);
    };
    const uploadId = `sluice-upload-${name}-${id}`;
    return connector.openUploadSink(sink, {
      manifest,
      packageSha256,
      pipeline: spec,
      id: uploadId,
      trace,
      identity,
      beforeResume,
    });
  }
  const target = outputEndpoint(sink, { name: id });
  if (target === null) throw new SluiceError('usage', 'predictions of an upload go to a topic or to files');
  await mkdir(path.dirname(target.name), { recursive: true });
  const passthrough = spec.score.passthrough ?? [];
  const interpretation = interpretationOf(spec);
  return openSink(target, { manifest: hosted.model.manifest, passthrough, interpretation, set });
}

/** Settings of a score section or a sink that do not affect the records of an upload. */
const WITHOUT_EFFECT = new Set(['batch_rows', 'batch_wait_ms', 'compression', 'topic', 'workers']);

/**
 * Identifies the records that an attempt at an upload writes: the package hash, and a digest of the settings, separated
 * by a slash. The input is identified by `sha256`.
 */
export function uploadIdentity({ spec, hosted, limits }: Pick<UploadRun, 'spec' | 'hosted' | 'limits'>): string {
  const { source, score, sink, on_invalid } = spec;
  const effective = (part: object) =>
    Object.fromEntries(Object.entries(part).filter(([key]) => !WITHOUT_EFFECT.has(key)));
  const { maxRows: _, ...ofRows } = limits;
  const settings = { source, score: effective(score), sink: effective(sink), on_invalid, limits: ofRows };
  const digest = createHash('sha256')
    .update(canonicalJson(settings as unknown as JsonValue))
    .digest('hex');
  return `${hosted.model.sha256}/${digest}`;
}

/**
 * Checks that this attempt would write the records that an earlier attempt wrote. `earlier`: null if the earlier attempt
 * did not store its identity.
 * @throws SluiceError checkpoint_mismatch
 */
export function assertSameIdentity(earlier: string | null, identity: string): void {
  if (earlier === null || earlier === identity) return;
  const [before, now] = [earlier, identity].map((text) => text.split('/'));
  const what = before![0] === now![0] ? 'the settings of the pipeline' : 'the content of the package';
  const help = 'its first predictions remain in the topic; upload it again with another Idempotency-Key';
  throw new SluiceError('checkpoint_mismatch', `cannot resume the upload: ${what} changed; ${help}`);
}

/** Checks that the stored upload is unchanged before it is scored again. @throws SluiceError digest_mismatch */
export async function assertUnchanged(file: string, sha256: string | null): Promise<void> {
  if (sha256 === null) return;
  const hash = createHash('sha256');
  for await (const chunk of storedBytes(file)) hash.update(chunk);
  if (hash.digest('hex') === sha256) return;
  throw new SluiceError('digest_mismatch', 'the spooled upload changed after it was acknowledged');
}
