// Logs every change of a job, with the request that submitted the job and the trace of that request.
import { monotonicMs } from '../../../core/clock.ts';
import type { SluiceError } from '../../../core/errors.ts';
import {
  faultFields,
  fixedWord,
  idOf,
  type Log,
  type LogEvent,
  type LogFields,
  type LogLevel,
  named,
  saysOf,
  type Word,
  words,
} from '../../../core/log.ts';
import { parseTraceparent, type Span, type Tracer, traceFields } from '../../../core/tracing.ts';
import { labelOf } from '../access/identity.ts';
import type { Job, NewJob } from './job-store.ts';
import type { JobDone } from './score-job.ts';

export class JobLog {
  readonly #log: Log;
  readonly #tracer: Tracer | null;

  constructor(log: Log, tracer: Tracer | null) {
    this.#log = log;
    this.#tracer = tracer;
  }

  queued(job: Job, why: 'accepted' | 'stopping' | 'crash' = 'accepted'): void {
    this.#tell('info', 'job_queued', job, words`queued`, { why: fixedWord(why), bytes_in: job.uploadBytes });
  }

  /** Another server ran the job before and did not renew its lease. A call of `started` follows. */
  takenOver(job: Job): void {
    this.#tell('warn', 'job_taken_over', job, words`taken over from a server whose lease expired`, {
      epoch: job.epoch,
      crashes: job.crashes,
    });
  }

  /** A call of one of the next three methods follows. */
  started(job: Job): RunningJobLog {
    const parent = parseTraceparent(job.trace ?? undefined);
    const span = this.#tracer?.begin(words`job`, { kind: 'internal', parent }) ?? null;
    this.#tell('info', 'job_started', job, words`started`, {});
    return { span, began: monotonicMs() };
  }

  done(job: Job, running: RunningJobLog, { counts, resultBytes, packageSha256 }: JobDone): void {
    const { rows, scored, rejected } = counts;
    // The package may differ from that of the upload, if the version was replaced in the meantime.
    const made = { package_sha256: named(packageSha256), bytes_in: job.uploadBytes, bytes_out: resultBytes };
    const fields = { rows, scored, rejected, ...made, ms: msOf(running) };
    this.#end(running, job, fields);
    this.#tell('info', 'job_done', job, words`done, ${rows} rows`, fields);
  }

  cancelled(job: Job, running: RunningJobLog | null): void {
    if (running) this.#end(running, job, {});
    this.#tell('info', 'job_cancelled', job, words`cancelled`, {});
  }

  uploadExpired(job: NewJob): void {
    this.#tell('info', 'upload_expired', job, words`abandoned during its upload`, {});
  }

  /** `fault`: a SluiceError with the code that the owner sees. The cause of this error is the original error. */
  failed(job: Job, running: RunningJobLog, fault: unknown, event: keyof typeof ENDS): void {
    const fields = { ...faultFields(fault), ms: msOf(running) };
    this.#end(running, job, fields, fault);
    const input = (fault as Partial<SluiceError>).entry?.fault === 'input';
    const level = input ? 'info' : event === 'job_failed' ? 'error' : 'warn';
    this.#tell(level, event, job, words`${ENDS[event]}: ${saysOf(fault)}`, fields);
  }

  #end({ span }: RunningJobLog, job: Job, fields: LogFields, fault?: unknown): void {
    span?.end({ ...identityOf(job), ...fields }, fault);
  }

  #tell(level: LogLevel, event: LogEvent, job: NewJob, what: Word, fields: LogFields): void {
    this.#log(level, event, words`job ${named(job.id)} ${what}`, { ...identityOf(job), ...fields });
  }
}

const ENDS = { job_failed: words`failed`, job_put_off: words`postponed`, job_lease_lost: words`lease lost` } as const;

export interface RunningJobLog {
  span: Span | null;
  began: number;
}

const msOf = ({ began }: RunningJobLog): number => Math.round(monotonicMs() - began);

function identityOf(job: NewJob): LogFields {
  return {
    job_id: named(job.id),
    request_id: idOf(job.requestId ?? undefined),
    ...traceFields(parseTraceparent(job.trace ?? undefined)),
    key: named(labelOf(job.owner)),
    model: named(job.query.modelId),
    ...(job.pipeline === null ? {} : { pipeline: named(job.pipeline) }),
  };
}
