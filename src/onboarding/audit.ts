// The audit page of a version: everything that is known of how it came to be served, gathered from its package and the journals.
import type { KeyObject } from 'node:crypto';
import { epochMs } from '../core/clock.ts';
import { versionOf } from '../model/package/load-package.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { type ModelPackage, readPackageFile } from '../model/package/model-package.ts';
import { LOCK, SIGNATURE } from '../model/package/package-hash.ts';
import { checkJournal } from '../model/registry/alias-journal.ts';
import type { AliasMove, ModelEntry, Registry } from '../model/registry/registry.ts';
import { checkStates, isStateSignedBy, type StateEntry, type VersionState } from '../model/registry/state-journal.ts';
import type { ModelTrust } from '../model/signing/model-signature.ts';
import type { Finding } from './findings.ts';
import type { Report } from './report.ts';
import type { WitnessReport } from './witness-report.ts';

/** What signatures are held against; `file`: what it is called. */
export interface AuditTrust {
  file: string;
  keys: readonly KeyObject[];
  packages: readonly ModelTrust[];
}

export interface Audit {
  model: string;
  state: VersionState;
  /** ISO time. */
  asked: string;
  description: string | null;
  task: Manifest['task'];
  outcome: string | null;
  classes: readonly (string | number | boolean)[];
  positive_class: string | number | boolean | null;
  package_sha256: string;
  onnx_sha256: string;
  /** SHA-256 of package.lock; null: it has none. */
  lock_sha256: string | null;
  /** null: the package says nothing of it. */
  training: Report['training'];
  checked: { at: string; sluice: string } | null;
  /** The version that this one was made from, with another policy. */
  from: Report['from'] | null;
  self_test: Report['selfTest'];
  /** Whether the package carries one, to be repeated. */
  has_self_test: boolean;
  witness: WitnessReport | null;
  findings: readonly Finding[];
  policy: Pick<Manifest, 'decisions' | 'scorecard' | 'reasons' | 'reasons_max'>;
  interpretation: { method: string; space: string; background: string | null } | null;
  baseline: { rows: number | null; columns: number; score_bins: number } | null;
  /** null: it is not signed. `by` null: nothing to check it with was given. */
  signature: { by: string | null; says: string } | null;
  proposed: StateEntry | null;
  approvals: readonly StateEntry[];
  /** Of this version, with whether a key that was given made the signature; null: no key was given, or it is not signed. */
  states: readonly (StateEntry & { verified: boolean | null })[];
  /** Moves of aliases to this version and away from it. */
  aliases: readonly AliasMove[];
  /** What each journal as a whole is. */
  journals: { aliases: string; states: string };
}

/** @throws SluiceError model_hash_mismatch | model_invalid | registry_unavailable */
export async function auditOf(
  model: ModelPackage,
  { registry, entry, trust }: { registry: Registry; entry: ModelEntry | undefined; trust: AuditTrust | null },
): Promise<Audit> {
  const { manifest } = model;
  const version = versionOf(manifest);
  const [report, states, moves, signature] = await Promise.all([
    reportIn(model),
    registry.states(manifest.id),
    registry.history(manifest.id),
    signatureOf(model, trust),
  ]);
  const own = states.filter((e) => e.version === version);
  const { decisions, scorecard, reasons, reasons_max, explain, baseline } = manifest;
  return {
    model: model.ref,
    state: entry?.states[version] ?? 'proposed',
    asked: new Date(epochMs()).toISOString(),
    description: manifest.description ?? null,
    task: manifest.task,
    outcome: manifest.outcome ?? null,
    classes: manifest.classes ?? [],
    positive_class: manifest.positive_class ?? null,
    package_sha256: model.sha256,
    onnx_sha256: manifest.onnx.sha256,
    lock_sha256: model.files.find((f) => f.name === LOCK)?.sha256 ?? null,
    training: report?.training ?? null,
    checked: report?.checked === undefined ? null : { at: report.checked, sluice: report.sluice ?? 'unknown' },
    from: report?.from ?? null,
    self_test: report?.selfTest ?? null,
    has_self_test: manifest.self_test !== undefined,
    witness: report?.witness ?? null,
    findings: report?.findings ?? [],
    policy: { ...(decisions && { decisions }), ...(scorecard && { scorecard }), ...(reasons && { reasons }), ...(reasons_max === undefined ? {} : { reasons_max }) }, // biome-ignore format: one line
    interpretation: explain?.method ? { method: explain.method, space: explain.space ?? '', background: explain.background ?? null } : null, // biome-ignore format: one line
    baseline: baseline ? { rows: baseline.rows ?? null, columns: Object.keys(baseline.columns).length, score_bins: baseline.score?.counts.length ?? 0 } : null, // biome-ignore format: one line
    signature,
    proposed: own.find((e) => e.to === 'proposed') ?? null,
    approvals: own.filter((e) => e.to === 'approved'),
    states: own.map((e) => ({ ...e, verified: trust && e.signature ? isStateSignedBy(e, trust.keys) : null })),
    aliases: moves.filter((m) => m.from === version || m.to === version),
    journals: {
      aliases: journalWords(moves.length, () => checkJournal(moves, null)),
      states: journalWords(states.length, () => checkStates(states, null)),
    },
  };
}

/** The report card as it is in the package; releases before had less in it. */
export async function reportIn(model: ModelPackage): Promise<Partial<Report> | null> {
  const name = 'report.json';
  if (!model.files.some((f) => f.name === name)) return null;
  const text = (await readPackageFile(model, name)).toString();
  try {
    return JSON.parse(text) as Partial<Report>;
  } catch {
    return null;
  }
}

async function signatureOf(model: ModelPackage, trust: AuditTrust | null): Promise<Audit['signature']> {
  if (!model.files.some((f) => f.name === SIGNATURE)) return null;
  if (trust === null) return { by: null, says: 'not checked: no key was given (--key)' };
  const { verifySignature } = await import('../model/signing/model-signature.ts');
  let why = '';
  for (const one of trust.packages) {
    try {
      const { by } = await verifySignature(model, one);
      return { by, says: `verified with ${trust.file}` };
    } catch (error) {
      why = (error as Error).message;
    }
  }
  return { by: null, says: `not by what is in ${trust.file}: ${why}` };
}

function journalWords(entries: number, check: () => { chained: number }): string {
  if (entries === 0) return 'empty';
  try {
    return `${entries} entries, ${check().chained} in one chain`;
  } catch (error) {
    return `BROKEN: ${(error as Error).message}`;
  }
}
