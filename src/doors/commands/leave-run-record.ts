// Writes the record of a run when the run starts and when it ends. If writing fails, the result of the run is
// unaffected.
import { stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { connectorOf } from '../../connectors/connectors.ts';
import type { End } from '../../connectors/contract/connector.ts';
import { makeFolderOf } from '../../connectors/stored-bytes.ts';
import { inBackground } from '../../core/async.ts';
import { epochMs, startInterval, stopTimer } from '../../core/clock.ts';
import type { SluiceError } from '../../core/errors.ts';
import { faultFields, faultOf, type Log, named, words } from '../../core/log.ts';
import type { RunCounts } from '../../engine/counts.ts';
import { addTo, newCounts } from '../../runs/accumulator.ts';
import { type RunResult, rejectedInAll } from '../../runs/context.ts';
import type { RunFindings } from '../../runs/gate.ts';
import {
  HEARTBEAT_SECONDS,
  manifestHash,
  newRecordId,
  type RecordedOutput,
  type RunRecord,
  recordedDrift,
  touchRunRecord,
  writeRunRecord,
} from '../../runs/run-records.ts';
import type { RunSpec } from '../../runs/spec.ts';
import { gateSummary } from '../../runs/summary.ts';
import { EXIT } from './exit-codes.ts';

const MOST_FILES = 200;
const MOST_CHARACTERS = 2000;

export interface EndOfRun {
  counts: Readonly<RunCounts>;
  findings: RunFindings;
  /** Null if nothing was published. */
  result: RunResult | null;
  exitCode: number;
  error: SluiceError | null;
}

interface RunRecordWriter {
  /** Never throws. Failures are logged. */
  end(run: EndOfRun): Promise<void>;
}

/**
 * Writes the record of a run that has started. Returns null if no records are requested. Never throws; failures are
 * logged.
 */
export async function startRecord(spec: RunSpec, name: string, log: Log): Promise<RunRecordWriter | null> {
  const folder = spec.run_records;
  if (folder === undefined) return null;
  const started = startOf(spec, name);
  const write = async (record: RunRecord): Promise<boolean> => {
    try {
      await makeFolderOf(path.join(folder, record.id));
      await writeRunRecord(folder, record);
      return true;
    } catch (error) {
      const says = words`cannot write the record of the run in ${named(folder)}: ${faultOf(error)}`;
      log('error', 'run_record_not_written', says, faultFields(error));
      return false;
    }
  };
  const update = () => inBackground('updating the record of a run', () => touchRunRecord(folder, started.id));
  const beats = (await write(started)) ? startInterval(update, HEARTBEAT_SECONDS * 1000) : undefined;
  beats?.unref();
  return {
    end: async (run) => {
      await write(await recordOf(started, spec, run));
      stopTimer(beats);
    },
  };
}

function startOf(spec: RunSpec, name: string): RunRecord {
  const began = epochMs();
  const [id, version] = spec.model.split(/[:@]/);
  return {
    id: newRecordId(began),
    name,
    host: hostname(),
    state: 'running',
    began: new Date(began).toISOString(),
    heartbeatSeconds: HEARTBEAT_SECONDS,
    ended: null,
    exitCode: null,
    error: null,
    model: {
      reference: spec.model,
      id: id!,
      version: spec.model.includes(':') ? version! : null,
      packageSha256: null,
    },
    input: nameOf(spec.source),
    output: nameOf(spec.sink),
    rows: 0,
    scored: 0,
    rejected: 0,
    rejectedByCode: {},
    gate: null,
    drift: null,
    report: null,
    outputs: [],
    rejectLists: [],
  };
}

async function recordOf(started: RunRecord, spec: RunSpec, run: EndOfRun): Promise<RunRecord> {
  const { findings, result, exitCode, error } = run;
  const counts = countsOf(run);
  const { model } = findings;
  return {
    ...started,
    state: stateOf(exitCode, rejectedInAll(counts, result)),
    ended: new Date(epochMs()).toISOString(),
    exitCode,
    error: error && { code: error.code, message: error.message.slice(0, MOST_CHARACTERS) },
    model: model
      ? {
          reference: spec.model,
          id: model.manifest.id,
          version: String(model.manifest.version),
          packageSha256: model.sha256,
        }
      : started.model,
    rows: counts.rows,
    scored: counts.scored,
    rejected: counts.rejected,
    rejectedByCode: { ...counts.rejectedByCode } as Record<string, number>,
    gate: gateSummary(spec.gate, findings.inputs.slice(0, MOST_FILES)),
    drift: recordedDrift(findings),
    report: await reportOf(spec, started),
    outputs: await Promise.all((result?.outputs ?? []).slice(0, MOST_FILES).map(outputOf)),
    rejectLists: (result?.rejectLists ?? []).slice(0, MOST_FILES).map(absolute),
  };
}

/** For a run that failed or was stopped, counts the rows of the inputs that the gate has judged. */
function countsOf({ counts, findings }: EndOfRun): Readonly<RunCounts> {
  if (counts.rows > 0) return counts;
  const judged = newCounts();
  for (const input of findings.inputs) addTo(judged, input.counts);
  return judged;
}

/** `rejected`: number of rejected rows, with those of inputs that an earlier run scored. */
function stateOf(exitCode: number, rejected: number): RunRecord['state'] {
  if (exitCode === EXIT.gate) return 'gate_stopped';
  if (exitCode === EXIT.failed || exitCode === EXIT.usage) return 'failed';
  return rejected > 0 ? 'rejected_rows' : 'done';
}

/** Path of the report, if this run wrote one; otherwise null. */
async function reportOf({ report }: RunSpec, { began }: RunRecord): Promise<string | null> {
  if (report === undefined) return null;
  const found = await stat(report).catch(() => null);
  // The tolerance is needed because file systems may round times down to a second.
  return found && found.mtimeMs >= Date.parse(began) - 1000 ? absolute(report) : null;
}

const outputOf = async (name: string): Promise<RecordedOutput> => ({
  path: absolute(name),
  manifestSha256: await manifestHash(name),
});

const absolute = (name: string): string => (/^\w+:\/\//.test(name) ? name : path.resolve(name));

const nameOf = (end: End): string => connectorOf(end).nameOf(end);
