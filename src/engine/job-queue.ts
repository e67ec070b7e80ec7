// Jobs waiting for a worker. Each stream has a queue, and the owners of streams take turns. Streams are grouped by
// kind.
import type { Block } from '../core/block.ts';
import { SluiceError } from '../core/errors.ts';
import type { Explained } from '../core/explained-work.ts';
import { asText } from '../formats/columns/column-text.ts';
import type { ScoredPart, StreamSpec } from './protocol.ts';

// Deep equality of plain data. Streams with equal input and output settings are of the same kind; workers cache a
// decoder and a formatter per kind.

export function sameData(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((x, i) => sameData(x, b[i]));
  if (Array.isArray(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  for (const k of keys) {
    if (!Object.hasOwn(b, k) || !sameData((a as Record<string, unknown>)[k], (b as Record<string, unknown>)[k]))
      return false;
  }
  return true;
}

interface StreamKind {
  id: number;
  spec: StreamSpec;
  /** Number of open streams. */
  users: number;
  /** Measured time of a worker per row in ms; null until it is measured. */
  rowMs: number | null;
}

/** If there are more kinds than this, kinds without open streams are removed. */
const MAX_KINDS = 32;

export class StreamKinds {
  readonly #kinds: StreamKind[] = [];
  readonly #onForget: (id: number) => void;
  #nextId = 1;

  /** `onForget`: called with the id of a removed kind; workers can then drop its cached data. */
  constructor(onForget: (id: number) => void) {
    this.#onForget = onForget;
  }

  of(spec: StreamSpec): StreamKind {
    const known = this.#kinds.find((k) => sameData(k.spec, spec));
    if (known) return known;
    if (this.#kinds.length >= MAX_KINDS) this.#forgetUnused();
    const kind: StreamKind = { id: this.#nextId++, spec, users: 0, rowMs: null };
    this.#kinds.push(kind);
    return kind;
  }

  #forgetUnused(): void {
    for (const kind of this.#kinds.filter((k) => k.users === 0)) {
      this.#kinds.splice(this.#kinds.indexOf(kind), 1);
      this.#onForget(kind.id);
    }
  }
}

/** The fields of a block that a worker needs. */
export type JobBlock = Pick<Block, 'slab' | 'spans' | 'faults' | 'lines' | 'firstRow' | 'firstByte' | 'columns'>;

export interface BlockJob {
  id: number;
  stream: JobStream;
  block: JobBlock;
  /** Number of workers that died while they scored the block. */
  deaths: number;
  /** Set when the helping thread could not score the block. */
  forWorker?: boolean;
  /** Set for a block of one record whose interpretation failed: score the record without interpretation. */
  uninterpreted?: boolean;
  /** Progress of the block's effects that was reported to the stream. */
  told?: Explained;
  resolve: (parts: ScoredPart[]) => void;
  reject: (error: unknown) => void;
}

export interface JobStream {
  kind: StreamKind;
  queue: BlockJob[];
  /** Number of poison rows: rows that killed workers or made the model throw. */
  poisonRows: number;
  closed: boolean;
  /**
   * Owner of the stream. The streams of an owner share the owner's turns; a stream without an owner has turns of its
   * own.
   */
  owner?: string | undefined;
  /** Called as effects are computed. */
  onExplained?: ((more: Explained) => void) | undefined;
}

export const streamClosed = (): SluiceError => new SluiceError('cancelled', 'the stream is closed');

/**
 * Jobs that wait, in the order of their turns. The owners of streams take turns; within a turn, so do the streams of
 * the owner. An owner with many or long streams thus gets no larger share than other owners with waiting jobs.
 */
export class JobQueue {
  /** Streams with queued jobs, by owner. The first owner is next; within each owner, the first stream is next. */
  #turns = new Map<unknown, JobStream[]>();
  #nextId = 1;

  get length(): number {
    let jobs = 0;
    for (const streams of this.#turns.values()) for (const { queue } of streams) jobs += queue.length;
    return jobs;
  }

  get empty(): boolean {
    return this.#turns.size === 0;
  }

  /** Queues a block behind the other blocks of its stream. */
  add(stream: JobStream, block: JobBlock): Promise<ScoredPart[]> {
    return new Promise((resolve, reject) => {
      const job: BlockJob = { id: this.#nextId++, stream, block, deaths: 0, resolve, reject };
      if (stream.queue.length === 0) this.#line(stream).push(stream);
      stream.queue.push(job);
    });
  }

  /** Queues a piece of a block whose worker died, ahead of all other jobs. */
  addPart(stream: JobStream, block: JobBlock): Promise<ScoredPart[]> {
    return new Promise((resolve, reject) => {
      this.putBack({ id: this.#nextId++, stream, block, deaths: 1, resolve, reject });
    });
  }

  /** Returns a job to the front of its stream, and its owner to the front of the rotation. */
  putBack(job: BlockJob): void {
    const { stream } = job;
    const owner = ownerOf(stream);
    const others = (this.#turns.get(owner) ?? []).filter((s) => s !== stream);
    this.#turns.delete(owner);
    this.#turns = new Map([[owner, [stream, ...others]], ...this.#turns]);
    stream.queue.unshift(job);
  }

  /** Takes the next job; the queue must not be empty. */
  take(): BlockJob {
    const [[owner, streams]] = this.#turns as unknown as [[unknown, JobStream[]]];
    const stream = streams.shift()!;
    const job = stream.queue.shift()!;
    if (stream.queue.length > 0) streams.push(stream);
    // The owner moves to the end of the rotation.
    this.#turns.delete(owner);
    if (streams.length > 0) this.#turns.set(owner, streams);
    return job;
  }

  /**
   * Splits the first `rows` records off a job. The remaining records go to the front of their stream, whose owner moves
   * to the end of the rotation.
   */
  cut(job: BlockJob, rows: number): BlockJob {
    const { stream, block, deaths } = job;
    const [head, rest] = [Promise.withResolvers<ScoredPart[]>(), Promise.withResolvers<ScoredPart[]>()];
    Promise.all([head.promise, rest.promise]).then(([a, b]) => job.resolve(a.concat(b)), job.reject);
    const own = ({ resolve, reject }: typeof head) => ({ id: this.#nextId++, stream, deaths, resolve, reject });
    if (stream.queue.length === 0) this.#line(stream).push(stream);
    stream.queue.unshift({ ...own(rest), block: partOf(block, rows, block.faults.length) });
    return { ...own(head), block: partOf(block, 0, rows) };
  }

  /**
   * Rejects the queued jobs of a stream. `error` creates the error only if it is needed, because a stack trace costs
   * more than a small request.
   */
  drop(stream: JobStream, error: () => SluiceError): void {
    if (stream.queue.length === 0) return;
    const owner = ownerOf(stream);
    const others = this.#turns.get(owner)!.filter((s) => s !== stream);
    if (others.length > 0) this.#turns.set(owner, others);
    else this.#turns.delete(owner);
    const reason = error();
    for (const job of stream.queue.splice(0)) job.reject(reason);
  }

  /** Rejects all queued jobs. */
  dropAll(error: SluiceError): void {
    const all = [...this.#turns.values()].flat();
    this.#turns.clear();
    for (const stream of all) for (const job of stream.queue.splice(0)) job.reject(error);
  }

  /** The waiting streams of the stream's owner. */
  #line(stream: JobStream): JobStream[] {
    const owner = ownerOf(stream);
    let streams = this.#turns.get(owner);
    if (!streams) {
      streams = [];
      this.#turns.set(owner, streams);
    }
    return streams;
  }
}

const ownerOf = (stream: JobStream): unknown => stream.owner ?? stream;

/** Records `from`..`to - 1` of a block. */
export function partOf(block: JobBlock, from: number, to: number): JobBlock {
  const { slab, firstByte, firstRow, spans, faults, lines } = asText(block);
  return {
    slab,
    firstByte,
    firstRow: firstRow + from,
    spans: spans.slice(from * 2, to * 2),
    faults: faults.slice(from, to),
    lines: lines.slice(from, to),
  };
}

/** Returns the block in shared memory. Copies the bytes if only this thread can access them. */
export function inSharedMemory(block: Block): JobBlock {
  const { slab, spans } = block;
  if (slab instanceof SharedArrayBuffer) return block;
  const first = spans[0] ?? 0;
  const length = (spans.at(-1) ?? 0) - first;
  const shared = new SharedArrayBuffer(length);
  new Uint8Array(shared).set(new Uint8Array(slab, first, length));
  return { ...block, slab: shared, spans: spans.map((at) => at - first), firstByte: block.firstByte + first };
}
