// The audit page of a version, which shows how the version came to be served, according to its package, its journals and its signature.
import type { KeyObject } from 'node:crypto';
import { epochMs } from '../core/clock.ts';
import { versionOf } from '../model/package/load-package.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { type ModelPackage, readPackageFile } from '../model/package/model-package.ts';
import { LOCK, SIGNATURE } from '../model/package/package-hash.ts';
import { checkJournal } from '../model/registry/aliases.ts';
import type { AliasMove, ModelEntry, Registry } from '../model/registry/registry.ts';
import { checkStates, isStateSignedBy, type StateEntry, type VersionState } from '../model/registry/state-journal.ts';
import type { ModelTrust } from '../model/signing/model-signature.ts';
import { type Finding, type Report, selfTestText, type WitnessReport, witnessLines } from './report-card.ts';

/** The keys or certificates with which signatures are verified. `file`: the file that contains them. */
export interface AuditTrust {
  file: string;
  keys: readonly KeyObject[];
  packages: readonly ModelTrust[];
}

export interface Audit {
  model: string;
  state: VersionState;
  /** Time of the audit, ISO 8601. */
  asked: string;
  description: string | null;
  task: Manifest['task'];
  outcome: string | null;
  classes: readonly (string | number | boolean)[];
  positive_class: string | number | boolean | null;
  package_sha256: string;
  onnx_sha256: string;
  /** SHA-256 of package.lock; null: the package has none. */
  lock_sha256: string | null;
  /** null: the package does not record its training data. */
  training: Report['training'];
  checked: { at: string; sluice: string } | null;
  /**
   * The version from which this version was made by changing the policy; null: this version was made from a model file.
   */
  from: Report['from'] | null;
  self_test: Report['selfTest'];
  /** Whether the package contains a self-test that can be repeated. */
  has_self_test: boolean;
  witness: WitnessReport | null;
  findings: readonly Finding[];
  policy: Pick<Manifest, 'decisions' | 'scorecard' | 'reasons' | 'reasons_max'>;
  interpretation: { method: string; space: string; background: string | null } | null;
  baseline: { rows: number | null; columns: number; score_bins: number } | null;
  /** null: the version is not signed. `by`: the signer; null: no trusted keys were supplied. */
  signature: { by: string | null; says: string } | null;
  proposed: StateEntry | null;
  approvals: readonly StateEntry[];
  /**
   * State changes of this version. `verified`: whether the change is signed with a trusted key; null: no keys were
   * supplied, or the change is not signed.
   */
  states: readonly (StateEntry & { verified: boolean | null })[];
  /** Moves of aliases to and from this version. */
  aliases: readonly AliasMove[];
  /** The result of checking each journal as a whole. */
  journals: { aliases: string; states: string };
}

/**
 * Collects the evidence about a version.
 * @throws SluiceError model_hash_mismatch | model_invalid | registry_unavailable
 */
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

/**
 * The report card in the package. Packages of earlier releases contain only some of its fields. null: the package has
 * none.
 */
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

const BROKEN = 'BROKEN';
const NOT_VERIFIED = 'not verified';

async function signatureOf(model: ModelPackage, trust: AuditTrust | null): Promise<Audit['signature']> {
  if (!model.files.some((f) => f.name === SIGNATURE)) return null;
  if (trust === null) return { by: null, says: 'not checked: no key (--key)' };
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
  return { by: null, says: `${NOT_VERIFIED} with ${trust.file}: ${why}` };
}

function journalWords(entries: number, check: () => { chained: number }): string {
  if (entries === 0) return 'empty';
  try {
    return `${entries} ${entries === 1 ? 'entry' : 'entries'}, ${check().chained} in one chain`;
  } catch (error) {
    return `${BROKEN}: ${(error as Error).message}`;
  }
}

// The sections of the audit page, which the text page and the HTML page share.

export interface AuditSection {
  title: string;
  /** Pairs of name and value. */
  facts: readonly (readonly [string, string])[];
  lines: readonly string[];
  verdict: SectionVerdict;
}

/**
 * `bad`: there is evidence against the version. `warn`: evidence or approval is missing. `none`: the section was not
 * checked, or contains nothing to check.
 */
interface SectionVerdict {
  level: 'good' | 'warn' | 'bad' | 'none';
  text: string;
}

const NONE = '–';

/**
 * The sections in page order. Empty sections are included, because an auditor must see which information is missing.
 */
export function auditSections(audit: Audit): AuditSection[] {
  const { training, signature, baseline, interpretation, policy, from } = audit;
  const section = (title: string, facts: [string, string][], lines: readonly string[] = []) => ({
    title,
    facts,
    lines,
    verdict: VERDICTS[title]!(audit),
  });
  return [
    section('What it is', [
      ['state', audit.state],
      ['description', audit.description ?? NONE],
      ['task', audit.task],
      ['outcome', audit.outcome ?? NONE],
      ['classes', audit.classes.length > 0 ? audit.classes.map(String).join(', ') : NONE],
      ['positive class', audit.positive_class === null ? NONE : String(audit.positive_class)],
      ['sha256 of the package', audit.package_sha256],
      ['sha256 of the model file', audit.onnx_sha256],
      ['sha256 of package.lock', audit.lock_sha256 ?? 'it has none'],
      [
        'made from',
        from
          ? `${from.model}${from.reason === undefined ? '' : ` because ${from.reason}`}, package ${from.package_sha256}`
          : NONE,
      ],
    ]),
    section('Who', [
      ['registered', audit.proposed ? byWords(audit.proposed) : 'not recorded'],
      ['approved', audit.approvals.length > 0 ? audit.approvals.map(byWords).join('; ') : 'by nobody'],
      ['signature of the package', signature ? `${signature.by === null ? '' : `${signature.by}, `}${signature.says}` : 'it is not signed'],
      ['journal of versions', audit.journals.states],
      ['journal of aliases', audit.journals.aliases],
    ]), // biome-ignore format: one line a fact
    section('Training', [
      ['table', training ? `${training.file}, ${training.rows.toLocaleString('en')} rows` : NONE],
      ['sha256 of the table', training?.sha256 ?? NONE],
      ['checked', audit.checked ? `${audit.checked.at} by Sluice ${audit.checked.sluice}` : NONE],
    ]),
    section('Self-test', [], selfTestLines(audit)),
    section('Against the training table', [], audit.witness ? witnessLines(audit.witness).filter((l) => l !== '') : [UNKNOWN]), // biome-ignore format: one line
    section('Warnings', [], wordsOf(audit, 'warning')),
    section('Assumed without evidence', [], wordsOf(audit, 'assumed')),
    section('Policy', [
      ['decisions', policy.decisions?.map((d) => `${d.name} from ${d.min_probability}`).join(', ') ?? NONE],
      ['scorecard', policy.scorecard ? `${policy.scorecard.base_points} points at odds of ${policy.scorecard.base_odds}, ${policy.scorecard.points_to_double_odds} to double them` : NONE],
      ['reasons', policy.reasons ? `${Object.keys(policy.reasons).length} columns, at most ${policy.reasons_max ?? 'the default'} a row` : NONE],
      ['interpretation', interpretation ? `${interpretation.method}, in ${interpretation.space}, against ${interpretation.background ?? 'nothing'}` : NONE],
    ]), // biome-ignore format: one line a fact
    section('Drift baseline', [
      ['rows', baseline?.rows?.toLocaleString('en') ?? NONE],
      ['columns', baseline ? String(baseline.columns) : 'none: drift cannot be measured'],
      ['bins of the score', baseline ? String(baseline.score_bins) : NONE],
    ]),
    section('States', [], orNone(audit.states.map((e) => `${stateWords(e)}${verifiedWords(e.verified)}`))),
    section('Aliases', [], orNone(audit.aliases.map(moveWords))),
  ];
}

const verdict = (level: SectionVerdict['level'], text: string): SectionVerdict => ({ level, text });
const plainCount = (n: number, one: string): string => `${n} ${one}${n === 1 ? '' : 's'}`;

/** The verdict of each section, by its title. */
const VERDICTS: Readonly<Record<string, (audit: Audit) => SectionVerdict>> = {
  'What it is': ({ state }) =>
    ({
      champion: verdict('good', 'Approved, and the champion alias points to it.'),
      approved: verdict('good', 'Approved for use.'),
      proposed: verdict('warn', 'Proposed, not approved.'),
      retired: verdict('warn', 'Retired: not for new decisions.'),
      removed: verdict('warn', 'Removed from the registry.'),
    })[state],
  Who: whoVerdict,
  Training: ({ training }) =>
    training?.sha256 ? verdict('good', 'The training table is recorded with its hash.') : verdict('warn', 'The training table is unknown, so the training cannot be traced.'),
  'Self-test': ({ self_test: test, has_self_test: repeatable }) =>
    test === null
      ? verdict('warn', repeatable ? 'No result is recorded; repeat it with sluice model verify.' : 'Predictions were never compared with the training library.')
      : test.passed ? verdict('good', 'Predictions agree with the training library.') : verdict('bad', 'Predictions differ from the training library.'),
  'Against the training table': ({ witness }) =>
    witness === null ? verdict('none', 'Not checked.')
      : witness.forced ? verdict('bad', 'The training table contradicts the registration, which was forced.')
        : witness.fit ? verdict('good', 'The outcomes of the training table support the registration.') : verdict('none', 'Not compared with outcomes.'),
  Warnings: (audit) => findingVerdict(audit, 'warning'),
  'Assumed without evidence': (audit) => findingVerdict(audit, 'assumed'),
  Policy: ({ policy: { decisions, scorecard, reasons } }) =>
    decisions && reasons ? verdict('good', `${plainCount(decisions.length, 'decision')} and reason codes${scorecard ? ', with a scorecard' : ''}.`)
      : verdict('warn', `Missing: ${[...(decisions ? [] : ['decisions']), ...(reasons ? [] : ['reason codes'])].join(' and ')}.`),
  'Drift baseline': ({ baseline }) =>
    baseline ? verdict('good', 'Drift can be measured.') : verdict('warn', 'Drift cannot be measured.'),
  States: ({ states }) => journalVerdict(states.length, states.map((e) => e.verified)),
  Aliases: ({ aliases, journals }) =>
    journals.aliases.startsWith(BROKEN) ? verdict('bad', 'The journal of aliases was changed.') : verdict('none', `${plainCount(aliases.length, 'move')} of aliases to or from this version.`),
}; // biome-ignore format: a table

function whoVerdict({ approvals, signature, journals }: Audit): SectionVerdict {
  if (journals.states.startsWith(BROKEN) || journals.aliases.startsWith(BROKEN)) {
    return verdict('bad', 'A journal was changed after it was written: do not rely on this history.');
  }
  if (signature?.says.startsWith(NOT_VERIFIED)) {
    return verdict('bad', 'The signature of the package is not from a trusted key.');
  }
  const missing = [
    ...(approvals.length === 0 ? ['has no recorded approval'] : []),
    ...(signature === null ? ['is not signed'] : []),
  ];
  if (missing.length > 0) return verdict('warn', `The version ${missing.join(' and ')}.`);
  if (signature?.by === null)
    return verdict('none', 'The signature was not checked: name the trusted keys with --key.');
  return verdict('good', 'Approved, and signed with a trusted key. The journals are intact.');
}

function findingVerdict({ checked, findings }: Audit, level: Finding['level']): SectionVerdict {
  if (checked === null) return verdict('none', 'Unknown: the package has no report card.');
  const found = findings.filter((f) => f.level === level).length;
  const [name, what] = level === 'warning' ? ['warning', 'Registration gave'] : ['assumption', 'Registration made'];
  return verdict(found === 0 ? 'good' : 'warn', `${what} ${plainCount(found, name)}.`);
}

function journalVerdict(entries: number, verified: readonly (boolean | null)[]): SectionVerdict {
  if (entries === 0) return verdict('warn', 'No change of state is recorded.');
  if (verified.includes(false)) return verdict('bad', 'A change was signed by an unknown key, or altered.');
  if (verified.every((one) => one === true)) return verdict('good', 'A trusted key signed every change.');
  return verdict('none', 'Signatures of changes were not checked, or are missing.');
}

/** The verdict on the version, which is the worst verdict of its sections. */
export function auditVerdict(sections: readonly AuditSection[]): {
  level: SectionVerdict['level'];
  headline: string;
  points: string[];
} {
  // biome-ignore format: one line
  const at = (level: SectionVerdict['level']) =>
    sections.filter((s) => s.verdict.level === level).map((s) => `${s.title}: ${s.verdict.text}`);
  const [bad, warn, none] = [at('bad'), at('warn'), at('none')];
  if (bad.length > 0) return { level: 'bad', headline: 'Evidence speaks against this version', points: [...bad, ...warn] }; // biome-ignore format: one line
  if (warn.length > 0) return { level: 'warn', headline: 'Evidence is incomplete', points: warn };
  return { level: 'good', headline: 'The evidence is complete', points: none };
}

const orNone = (lines: readonly string[]): readonly string[] => (lines.length === 0 ? ['None.'] : lines);

/** Shown if a package has no report card, because its findings are then unknown. */
const UNKNOWN = 'The package has no report card.';

function wordsOf({ checked, findings }: Audit, level: Finding['level']): readonly string[] {
  if (checked === null) return [UNKNOWN];
  return orNone(findings.filter((f) => f.level === level).map((f) => `${f.column === undefined ? '' : `${f.column}: `}${f.text}`)); // biome-ignore format: one line
}

function selfTestLines({ checked, self_test, has_self_test }: Audit): readonly string[] {
  if (checked !== null) return [selfTestText(self_test)];
  return [has_self_test ? 'The package contains one; sluice model verify repeats it.' : UNKNOWN];
}

const keyWords = ({ signature }: StateEntry | AliasMove): string =>
  signature ? `, key ${signature.keyid.slice(0, 16)}…` : ', not signed';
const whyWords = ({ why }: StateEntry | AliasMove): string => (why === undefined ? '' : `: ${why}`);

const byWords = (entry: StateEntry): string => `${entry.at} by ${entry.who}${keyWords(entry)}${whyWords(entry)}`;
const stateWords = (entry: StateEntry): string =>
  `${entry.at} ${entry.to} by ${entry.who}${keyWords(entry)}${whyWords(entry)}`;
const moveWords = (move: AliasMove): string =>
  `${move.at} ${move.alias}: ${move.from ?? '(none)'} → ${move.to ?? '(removed)'} by ${move.who}${keyWords(move)}${whyWords(move)}`;

const verifiedWords = (verified: boolean | null): string =>
  verified === null ? '' : verified ? ' (verified)' : ' (BY ANOTHER KEY, or changed)';

/** The audit page as text. */
export function auditText(audit: Audit): string {
  const wide = Math.max(...auditSections(audit).flatMap((s) => s.facts.map(([name]) => name.length)));
  const parts = auditSections(audit).map(({ title, facts, lines }) =>
    [title, ...facts.map(([name, value]) => `  ${name.padEnd(wide)}  ${value}`), ...lines.map((l) => `  ${l}`)].join(
      '\n',
    ),
  );
  const { headline, points } = auditVerdict(auditSections(audit));
  return [
    `${audit.model}, ${audit.asked}`,
    [headline, ...points.map((point) => `  ${point}`)].join('\n'),
    ...parts,
  ].join('\n\n');
}
