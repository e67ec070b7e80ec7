// The training table as witness: a registration that it contradicts is refused, what it cannot tell is listed.
import { SluiceError } from '../core/errors.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft } from './draft.ts';
import { NO_ENCODING, ruleFor } from './encoding-file.ts';
import { respelledValues } from './respelled-values.ts';
import { someNames } from './swap.ts';
import { runSwapTest, type SwapTest, type TriedSwap } from './swap-test.ts';
import { fitOf } from './training-fit.ts';
import { missingIn } from './training-table.ts';
import type { WitnessReport } from './witness-report.ts';
import { findWitness } from './witness-rows.ts';

/** By how much a swap has to fit better to contradict the registration: standard errors, and a share of what the swapped model knows. */
const USUAL = { errors: 4, share: 0.01 };
const RARE = { errors: 6, share: 0.05 };
/** Standard errors by which the outcome wants less of what is registered, and a share that needs no such support. */
const NOT_BORNE_OUT = -2;
const LARGE_SHARE = 0.15;
/** Below this a gain is of no consequence, however sure it is: nats, or shares of the variance, a row. */
const LEAST_GAIN = 0.0005;
/** Rows that have to change for standard errors to be trusted. */
const LEAST_CHANGED = 30;
/** Standard errors within which two registrations cannot be told apart. */
const OPEN = 2;
/** The same for what the user said: the table has to doubt it. */
const OPEN_IF_SAID = 1;
/** Predictions that differ by less are the same for whoever decides by them. */
const DIFFERS = 0.005;
/** Open questions that are listed one by one. */
const LISTED = 12;
/** Contradictions that are told. */
const TOLD = 4;

/**
 * Holds the registration against the outcome of the training table. Predictions of the training library say more than any
 * outcome can: where they were given and came out, no swap is tried.
 * @throws SluiceError registration_contradicted
 */
export async function askTrainingTable(draft: Draft, manifest: Manifest): Promise<WitnessReport> {
  const { findings, options } = draft;
  const { witness, why, contradictions: ofOutcome } = await findWitness(draft, manifest);
  const tried = witness && !draft.test ? await runSwapTest(draft, manifest, witness) : null;
  const contradictions = [...respelledValues(draft), ...(tried ? contradictionsOf(tried) : []), ...ofOutcome];
  if (contradictions.length > 0 && options.force === undefined) throw contradicted(contradictions);
  for (const text of contradictions) findings.warn(`registered by force: ${text}`);
  if (!witness) findings.assumed(`the training table is no witness of this registration (${why}): order, codes and missing values are as they were said or assumed`); // biome-ignore format: words
  if (tried) reportOpen(draft, tried);
  if (!draft.test) reportUnwitnessed(draft);
  return {
    fit: witness && fitOf(draft, witness),
    swaps: tried && { rows: tried.rows, tried: tried.tried, offered: tried.offered },
    forced: contradictions.length > 0 ? { reason: options.force!, contradictions } : null,
  };
}

const contradicted = (texts: readonly string[]): SluiceError =>
  new SluiceError(
    'registration_contradicted',
    `the training table contradicts this registration:\n${texts.map((t) => `  - ${t}`).join('\n')}\nRegister it as the table says, or with --force "reason", which is kept in the package.`,
  );

function contradictionsOf({ near, rows }: SwapTest): string[] {
  const guilty = bestOfEach(near.filter(contradicts));
  const told = guilty
    .slice(0, TOLD)
    .map(
      ({ swap, gain, losses }) =>
        `with ${swap.words} it would fit the outcome better by ${gain.z.toFixed(1)} standard errors over ${rows.toLocaleString('en')} rows (loss ${losses.swapped.toFixed(4)} instead of ${losses.given.toFixed(4)}): ${swap.mend}`,
    );
  if (guilty.length > TOLD) told.push(`and ${guilty.length - TOLD} more of this kind, which may follow from these`);
  return told;
}

/**
 * Where a model has not learnt all there is, other codes than it was trained on may fit better by chance: a linear model on codes
 * does so. Then what is registered is borne out by itself, and only a large gain speaks against it.
 */
function contradicts({ swap, gain, losses, changed, borneOut }: TriedSwap): boolean {
  const bar = swap.rare ? RARE : USUAL;
  const guilty = borneOut === null || borneOut <= NOT_BORNE_OUT;
  return (
    (guilty || gain.mean >= LARGE_SHARE * (losses.constant - losses.swapped)) &&
    gain.z >= bar.errors &&
    gain.mean >= LEAST_GAIN &&
    gain.mean >= bar.share * (losses.constant - losses.swapped) &&
    changed >= LEAST_CHANGED
  );
}

/** Of several swaps about one thing the first, which is the best; two that come to the same are one. */
function bestOfEach(near: readonly TriedSwap[]): TriedSwap[] {
  const seen = new Set<string | number>();
  return near.filter(({ swap, losses }) => {
    if (seen.has(swap.subject) || seen.has(losses.swapped)) return false;
    return seen.add(swap.subject).add(losses.swapped);
  });
}

/** Lists what the table cannot tell, with both candidates and how far their predictions differ; what nobody said comes first. */
function reportOpen({ findings }: Draft, { near, rows }: SwapTest): void {
  const isOpen = ({ swap, gain, largest }: TriedSwap) =>
    gain.z > (swap.declared ? -OPEN_IF_SAID : -OPEN) && largest >= DIFFERS;
  const open = bestOfEach(near.filter((t) => !contradicts(t) && isOpen(t))).sort(
    (a, b) => Number(a.swap.declared) - Number(b.swap.declared),
  );
  for (const { swap, gain, largest, typical } of open.slice(0, LISTED)) {
    const tells =
      gain.z > OPEN
        ? `the table prefers the latter by ${gain.z.toFixed(1)} standard errors over ${rows.toLocaleString('en')} rows`
        : 'the table cannot tell';
    findings.assumed(
      `${swap.subject}: ${swap.given}, or ${swap.words}? Predictions differ by up to ${largest.toPrecision(2)}, typically ${typical.toPrecision(2)}; ${tells} (${swap.mend})`,
    );
  }
  if (open.length > LISTED) {
    const most = Math.max(...open.slice(LISTED).map((t) => t.largest));
    findings.assumed(
      `${open.length - LISTED} more swaps cannot be told from what is registered; predictions differ by up to ${most.toPrecision(2)} (${someNames(open.slice(LISTED).map((t) => t.swap.subject))})`,
    );
  }
}

/** Columns without a missing value in the table, of which nobody said what missing becomes. */
function reportUnwitnessed({ columns, options, findings }: Draft): void {
  const encoding = options.encoding ?? NO_ENCODING;
  const names = columns.flatMap(({ spec, profile, known }) => {
    const said = ruleFor(encoding.missing, spec.name) !== undefined || known?.marker !== undefined;
    return missingIn(profile) > 0 || spec.missing?.as === 'error' || said ? [] : [spec.name];
  });
  if (names.length === 0) return;
  findings.assumed(
    `no training row lacks ${someNames(names, 8)}: what the model gets where an application does is a default (--encoding, missing)`,
  );
}
