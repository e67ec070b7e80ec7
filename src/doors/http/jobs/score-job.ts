// What a job does with its spooled upload: into a result to be fetched, or into the sink of a pipeline.
import type { RunCounts } from '../../../engine/counts.ts';
import type { ScoredPart } from '../../../engine/protocol.ts';
import { openFileSink } from '../../../io/sink/file-sink.ts';
import { openFile } from '../../../io/source/byte-source.ts';
import type { UnitAccount } from '../../../runs/account.ts';
import { withOutput } from '../../../runs/endpoints.ts';
import { refuseNothingScored } from '../../../runs/nothing-scored.ts';
import { runOnce } from '../../../runs/run-once.ts';
import { runUpload, type UploadSpec } from '../../../runs/upload-run.ts';
import { askedOf, type PredictServices, refuseOutcome, streamLimits } from '../routes/predict.ts';
import type { Job } from './job-store.ts';

export interface JobFiles {
  upload: string;
  result: string;
}

export interface JobDone {
  counts: Readonly<RunCounts>;
  /** 0: the result went elsewhere. */
  resultBytes: number;
  /** Of the package that scored it. */
  packageSha256: string;
}

/** Called now and then while a job runs. */
export type OnProgress = (counts: Readonly<RunCounts>, bytesRead: number) => void;

/** @throws SluiceError what ends the job */
export async function scoreJob(
  services: PredictServices,
  job: Job,
  files: JobFiles,
  {
    signal,
    onProgress,
    onGrowth,
  }: {
    signal: AbortSignal;
    onProgress: OnProgress;
    /** Called with the bytes a result has grown by; what it throws ends the job. */
    onGrowth: (bytes: number) => void;
  },
): Promise<JobDone> {
  const { config, host, account } = services;
  const hosted = await host.use(job.query.modelId);
  const source = await openFile(files.upload);
  try {
    const result = await openFileSink(files.result);
    const { input, output, scoring } = askedOf(job.format, job.query, config);
    const unit = account.unit({ live: true, sent: false, pipeline: 'jobs' });
    const watch = watched(unit, onProgress);
    let grown = 0;
    const counts = await runOnce({
      model: hosted.model,
      pool: hosted.pool,
      source: { chunks: source.chunks, input },
      scoring,
      sink: withOutput(result, output),
      account: unit,
      signal,
      onPart: (part) => {
        watch(part, source.bytesRead());
        onGrowth(result.bytesWritten - grown);
        grown = result.bytesWritten;
      },
      beforeCommit: refuseNothingScored,
    });
    return { counts, resultBytes: result.bytesWritten, packageSha256: hosted.model.sha256 };
  } finally {
    await source.close();
    hosted.release();
  }
}

/** The same for an upload to a pipeline. @throws SluiceError what ends the job */
export async function scoreUpload(
  { config, host, account }: PredictServices,
  job: Job,
  { upload }: JobFiles,
  pipeline: { name: string; spec: UploadSpec },
  { signal, onProgress }: { signal: AbortSignal; onProgress: OnProgress },
): Promise<JobDone> {
  const hosted = await host.use(job.query.modelId);
  try {
    const unit = account.unit({ live: true, sent: false, pipeline: pipeline.name });
    const counts = await runUpload({
      ...pipeline,
      id: job.id,
      file: upload,
      sha256: job.bodySha256,
      trace: job.trace,
      hosted,
      limits: streamLimits(config.limits),
      account: unit,
      signal,
      onPart: watched(unit, onProgress),
      beforeCommit: refuseNothingScored,
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
