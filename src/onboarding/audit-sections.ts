// The audit page as sections of facts: the one content of its text and of its HTML.
import type { AliasMove } from '../model/registry/registry.ts';
import type { StateEntry } from '../model/registry/state-journal.ts';
import type { Audit } from './audit.ts';
import type { Finding } from './findings.ts';
import { selfTestText } from './report.ts';
import { witnessLines } from './witness-report.ts';

export interface AuditSection {
  title: string;
  /** Name and value. */
  facts: readonly (readonly [string, string])[];
  lines: readonly string[];
}

const NONE = '–';

/** In the order of the page; none is left out, because an auditor has to see what there is not. */
export function auditSections(audit: Audit): AuditSection[] {
  const { training, signature, baseline, interpretation, policy, from } = audit;
  const section = (title: string, facts: [string, string][], lines: readonly string[] = []) => ({
    title,
    facts,
    lines,
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
      ['registered', audit.proposed ? byWords(audit.proposed) : 'not written down'],
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
    section('Assumed, because nothing shows it', [], wordsOf(audit, 'assumed')),
    section('Policy', [
      ['decisions', policy.decisions?.map((d) => `${d.name} from ${d.min_probability}`).join(', ') ?? NONE],
      ['scorecard', policy.scorecard ? `${policy.scorecard.base_points} points at odds of ${policy.scorecard.base_odds}, ${policy.scorecard.points_to_double_odds} to double them` : NONE],
      ['reasons', policy.reasons ? `${Object.keys(policy.reasons).length} columns, at most ${policy.reasons_max ?? 'the default'} a row` : NONE],
      ['interpretation', interpretation ? `${interpretation.method}, in ${interpretation.space}, against ${interpretation.background ?? 'nothing'}` : NONE],
    ]), // biome-ignore format: one line a fact
    section('Drift baseline', [
      ['rows', baseline?.rows?.toLocaleString('en') ?? NONE],
      ['columns', baseline ? String(baseline.columns) : 'it has none: drift cannot be seen'],
      ['bins of the score', baseline ? String(baseline.score_bins) : NONE],
    ]),
    section('States', [], orNone(audit.states.map((e) => `${stateWords(e)}${verifiedWords(e.verified)}`))),
    section('Aliases', [], orNone(audit.aliases.map(moveWords))),
  ];
}

const orNone = (lines: readonly string[]): readonly string[] => (lines.length === 0 ? ['None.'] : lines);

/** Of a package without a report card nobody wrote down what was found. */
const UNKNOWN = 'Nothing is known: the package has no report card.';

function wordsOf({ checked, findings }: Audit, level: Finding['level']): readonly string[] {
  if (checked === null) return [UNKNOWN];
  return orNone(findings.filter((f) => f.level === level).map((f) => `${f.column === undefined ? '' : `${f.column}: `}${f.text}`)); // biome-ignore format: one line
}

function selfTestLines({ checked, self_test, has_self_test }: Audit): readonly string[] {
  if (checked !== null) return [selfTestText(self_test)];
  return [has_self_test ? 'The package carries one; sluice model verify repeats it.' : UNKNOWN];
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

/** The page as text. */
export function auditText(audit: Audit): string {
  const wide = Math.max(...auditSections(audit).flatMap((s) => s.facts.map(([name]) => name.length)));
  const parts = auditSections(audit).map(({ title, facts, lines }) =>
    [title, ...facts.map(([name, value]) => `  ${name.padEnd(wide)}  ${value}`), ...lines.map((l) => `  ${l}`)].join(
      '\n',
    ),
  );
  return [`${audit.model}, ${audit.asked}`, ...parts].join('\n\n');
}
