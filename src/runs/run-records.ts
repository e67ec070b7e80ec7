// Records of runs: one JSON file per run, in a folder that the service lists. A run writes its record at its start and
// again at its end.
import { hash, randomBytes } from 'node:crypto';
import { readdir, readFile, stat, utimes } from 'node:fs/promises';
import path from 'node:path';
import { storedText } from '../connectors/stored-bytes.ts';
import { epochMs } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { manifestNameOf } from '../core/file-names.ts';
import { fileFault } from '../core/file-system.ts';
import { type ColumnDigest, driftDigest } from '../drift/drift-report.ts';
import { putFile } from '../io/sink/file-sink.ts';
import type { RunFindings } from './gate.ts';
import type { GateSummary } from './summary.ts';

/** Maximum size of a record in bytes; larger files are not read. */
const MAX_BYTES = 256 * 1024;
/** Maximum number of records that one request reads. */
const MOST_READ = 2000;
/** Maximum number of columns whose drift is recorded. */
const MOST_COLUMNS = 5;
/** A record's id: the start of the run in UTC, and a random suffix. */
const RECORD_ID = /^\d{8}T\d{9}Z-[0-9a-f]{8}$/;
const ENDING = '.json';

/** `running`: the run has not ended, or its process was killed. */
type RunState = 'running' | 'done' | 'rejected_rows' | 'failed' | 'gate_stopped';

/** A running process updates the time of its record this often. */
export const HEARTBEAT_SECONDS = 30;
/**
 * Without an update for this number of intervals, a run counts as killed. They allow for a file server whose clock
 * differs by two minutes.
 */
const HEARTBEATS_MISSED = 6;

export interface RecordedOutput {
  /** Absolute path or object name. */
  path: string;
  /** SHA-256 of the manifest file; null if the output has no manifest. */
  manifestSha256: string | null;
}

export interface RunRecord {
  id: string;
  /** Name of the pipeline; `score` for the command. */
  name: string;
  host: string;
  state: RunState;
  began: string;
  /** Interval in which the process updates the time of the file; absent in records of earlier releases. */
  heartbeatSeconds?: number;
  /** Null until the run ends. */
  ended: string | null;
  exitCode: number | null;
  error: { code: string; message: string } | null;
  /**
   * The configured reference and the version to which it resolved. `version` is null if the reference was not resolved.
   */
  model: { reference: string; id: string; version: string | null; packageSha256: string | null };
  input: string;
  output: string;
  rows: number;
  scored: number;
  rejected: number;
  rejectedByCode: Record<string, number>;
  gate: GateSummary | null;
  /** Differences from the training data; null if nothing was measured. */
  drift: { rows: number; scorePsi: number | null; columnsDrifted: number; columns: ColumnDigest[] } | null;
  /** Path of the HTML report; null if none was written. */
  report: string | null;
  outputs: RecordedOutput[];
  rejectLists: string[];
}

/** A new id. Ids sort by the start of their run. */
export const newRecordId = (beganMs: number): string =>
  `${new Date(beganMs).toISOString().replaceAll(/[-:.]/g, '')}-${randomBytes(4).toString('hex')}`;

/** Drift of all inputs of a run; null if nothing was measured. */
export function recordedDrift(findings: RunFindings): RunRecord['drift'] {
  const report = findings.report();
  if (!report || report.rows === 0) return null;
  const { rows, scorePsi, columnsDrifted, columns } = driftDigest(report);
  return { rows, scorePsi, columnsDrifted, columns: columns.slice(0, MOST_COLUMNS) };
}

/**
 * SHA-256 of an output's manifest file, by which the output can be identified even after a later run replaced it. Null
 * if the manifest file is missing or unreadable.
 */
export async function manifestHash(output: string): Promise<string | null> {
  const text = await storedText(manifestNameOf(output)).catch(() => null);
  return text === null ? null : hash('sha256', text, 'hex');
}

/** Replaces the record atomically, so that readers never see a partial record. @throws SluiceError output_unwritable */
export const writeRunRecord = (folder: string, record: RunRecord): Promise<void> =>
  putFile(path.join(folder, record.id + ENDING), `${JSON.stringify(record)}\n`);

/** Shows that the process of a record still exists. @throws any error of the file system */
export async function touchRunRecord(folder: string, id: string): Promise<void> {
  const now = epochMs() / 1000;
  await utimes(path.join(folder, id + ENDING), now, now);
}

/** A record as the service shows it. `killed`: the run has not ended, and its process no longer updates the record. */
export type FoundRun = Omit<RunRecord, 'state'> & { state: RunState | 'killed' };

/** Reads the records of a folder. Records of ended runs never change, so each is read only once. */
export class RunRecords {
  readonly #folder: string;
  readonly #ended = new Map<string, FoundRun>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * The newest records that `shows` accepts, newest first. Unreadable files are skipped.
   * @throws SluiceError storage_unavailable
   */
  async list(limit: number, shows: (record: FoundRun) => boolean): Promise<FoundRun[]> {
    const names = await readdir(this.#folder).catch((cause: NodeJS.ErrnoException) => {
      // The folder does not exist until the first run creates it.
      if (cause.code === 'ENOENT') return [];
      const message = `run_records: the folder cannot be read: ${fileFault(cause)}`;
      throw new SluiceError('storage_unavailable', message, { cause });
    });
    const ids = names.filter((name) => name.endsWith(ENDING)).map((name) => name.slice(0, -ENDING.length));
    const found: FoundRun[] = [];
    for (const id of ids
      .filter((name) => RECORD_ID.test(name))
      .sort()
      .reverse()
      .slice(0, MOST_READ)) {
      if (found.length >= limit) break;
      const record = await this.find(id);
      if (record && shows(record)) found.push(record);
    }
    return found;
  }

  /** Returns null if the record does not exist or is unreadable. */
  async find(id: string): Promise<FoundRun | null> {
    if (!RECORD_ID.test(id)) return null;
    const known = this.#ended.get(id);
    if (known) return known;
    const record = await readRecord(path.join(this.#folder, id + ENDING));
    if (record?.id !== id) return null;
    if (record.state !== 'running' && record.state !== 'killed') {
      if (this.#ended.size >= MOST_READ) this.#ended.delete(this.#ended.keys().next().value!);
      this.#ended.set(id, record);
    }
    return record;
  }
}

async function readRecord(file: string): Promise<FoundRun | null> {
  try {
    const found = await stat(file);
    if (!found.isFile() || found.size > MAX_BYTES) return null;
    const value = JSON.parse(await readFile(file, 'utf8')) as RunRecord;
    if (!isRecord(value)) return null;
    const seconds = (epochMs() - found.mtimeMs) / 1000;
    const killed = value.state === 'running' && seconds > HEARTBEATS_MISSED * (value.heartbeatSeconds ?? Infinity);
    return killed ? { ...value, state: 'killed' } : value;
  } catch {
    return null;
  }
}

/** Whether a value has the fields that readers of records rely on. */
const isRecord = (value: Partial<RunRecord> | null): boolean =>
  typeof value?.id === 'string' &&
  typeof value.state === 'string' &&
  typeof value.model?.id === 'string' &&
  Array.isArray(value.outputs);
