// Scores the upload of a job, either into a result or into the sink of a pipeline.

import { openStored } from '../../../connectors/stored-bytes.ts';
import type { RunCounts } from '../../../engine/counts.ts';
import type { ScoredPart } from '../../../engine/protocol.ts';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import type { UnitAccount } from '../../../runs/account.ts';
import { withOutput } from '../../../runs/byte-ends.ts';
import { refuseNothingScored } from '../../../runs/plugins/require-scored-rows.ts';
import { runOnce } from '../../../runs/run-once.ts';
import { runUpload, type UploadSpec } from '../../../runs/upload-run.ts';
import { refuseOutcome, runSettings, type ServiceContext, streamLimits } from '../wire/scoring-request.ts';
import type { GrowFile } from './job-quota.ts';
import type { Job } from './job-store.ts';

/** A pipeline whose source is an upload. */
export interface UploadPipeline {
  name: string;
  spec: UploadSpec;
}

/** The files that a job reads and writes. */
interface JobEnds {
  /** Path or object name of the upload. */
  upload: string;
  newResult: () => Promise<ByteSink>;
}

export interface JobDone {
  counts: Readonly<RunCounts>;
  /** Size of the result in bytes; 0 if the predictions went to the sink of a pipeline. */
  resultBytes: number;
  /** Hash of the package that scored the job. */
  packageSha256: string;
}

/** Called at intervals while a job runs. */
type OnProgress = (counts: Readonly<RunCounts>, bytesRead: number) => void;

/** The abort signal and the callbacks of a running job. */
interface JobWatch {
  signal: AbortSignal;
  onProgress: OnProgress;
  /** Called before publication. An error thrown by this function ends the job. */
  beforeCommit: () => void;
}

/** @throws SluiceError any error that ends the job */
export async function scoreJob(
  services: ServiceContext,
  job: Job,
  ends: JobEnds,
  { signal, onProgress, beforeCommit, grow }: JobWatch & { grow: GrowFile },
): Promise<JobDone> {
  const { config, host, account } = services;
  const hosted = await host.use(job.query.modelId);
  try {
    const source = await openStored(ends.upload);
    try {
      const result = await ends.newResult();
      const { input, output, scoring } = runSettings(job.format, job.query, config);
      const unit = account.unit({ live: true, sent: false, pipeline: 'jobs' });
      const watch = watched(unit, onProgress);
      const counts = await runOnce({
        model: hosted.model,
        pool: hosted.pool,
        source: { chunks: source.chunks, input },
        scoring,
        sink: withOutput(quotedSink(result, grow), output),
        account: unit,
        owner: job.owner,
        signal,
        onPart: (part) => watch(part, source.bytesRead()),
        beforeCommit: (counts) => {
          refuseNothingScored(counts);
          beforeCommit();
        },
      });
      return { counts, resultBytes: result.bytesWritten, packageSha256: hosted.model.sha256 };
    } finally {
      await source.close();
    }
  } finally {
    hosted.release();
  }
}

/** A sink that reserves quota before each write. */
function quotedSink(result: ByteSink, grow: GrowFile): ByteSink {
  return {
    revocable: result.revocable,
    get bytesWritten() {
      return result.bytesWritten;
    },
    write: async (bytes) => {
      await grow(bytes.length);
      await result.write(bytes);
    },
    commit: () => result.commit(),
    abort: () => result.abort(),
  };
}

/** Scores an upload to a pipeline. @throws SluiceError any error that ends the job */
export async function scoreUpload(
  { config, host, account }: ServiceContext,
  job: Job,
  upload: string,
  pipeline: UploadPipeline,
  { signal, onProgress, beforeCommit }: JobWatch,
): Promise<JobDone> {
  const hosted = await host.use(job.query.modelId);
  try {
    const unit = account.unit({ live: true, sent: false, pipeline: pipeline.name });
    const counts = await runUpload({
      ...pipeline,
      id: job.id,
      owner: job.owner,
      file: upload,
      sha256: job.bodySha256,
      trace: job.trace,
      hosted,
      limits: streamLimits(config.limits),
      account: unit,
      signal,
      onPart: watched(unit, onProgress),
      beforeCommit: (counts) => {
        refuseNothingScored(counts);
        beforeCommit();
      },
    });
    return { counts, resultBytes: 0, packageSha256: hosted.model.sha256 };
  } finally {
    hosted.release();
  }
}

const watched =
  (unit: UnitAccount, onProgress: OnProgress) =>
  (part: ScoredPart, bytesRead: number): void => {
    refuseOutcome(part);
    onProgress(unit.counts, bytesRead);
  };
