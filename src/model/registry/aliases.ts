// The file aliases.yaml (alias → version), and the journal of alias moves with author, time, reason and package.
import type { KeyObject } from 'node:crypto';
import { formatProblem, type YamlProblem } from '../../config/yaml-problem.ts';
import { readYamlValue } from '../../config/yaml-value.ts';
import { epochMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { chained, checkChain, journalFields, type Mover, signed } from './journal.ts';
import type { AliasMove } from './registry.ts';

const textOf = ({ at, who, alias, from, to, why, package_sha256, previous }: AliasMove): string =>
  JSON.stringify([at, who, alias, from, to, why ?? null, package_sha256 ?? null, previous ?? null]);

export interface PlannedMove {
  alias: string;
  from: string | null;
  to: string | null;
  /** Package hash of the version `to`. */
  package_sha256: string | null;
  by: string | Mover;
}

/** The author to record for a move that was made outside Sluice. */
type Unseen = 'edited by hand' | 'moved in MLflow';

/**
 * The journal entries for a move. If the alias was changed outside Sluice since the last entry, an entry for that
 * change precedes the move.
 */
export function entriesFor(history: readonly AliasMove[], planned: PlannedMove, unseen: Unseen): AliasMove[] {
  const { alias, from, to, package_sha256, by } = planned;
  const { who, why, key } = typeof by === 'string' ? { who: by, why: undefined, key: undefined } : by;
  const at = new Date(epochMs()).toISOString();
  const known = history.findLast((m) => m.alias === alias)?.to ?? null;
  const entries: AliasMove[] = [];
  const append = (move: AliasMove, signer?: KeyObject): void => {
    const before = entries.at(-1) ?? history.at(-1);
    // MLflow allows simultaneous moves of an alias, so the entries cannot be chained.
    const isLoose = unseen === 'moved in MLflow';
    entries.push(isLoose ? signed(move, textOf, signer) : chained(move, before, textOf, signer));
  };
  if (known !== from) append({ at, who: unseen, alias, from: known, to: from });
  append({ at, who, alias, from, to, ...(why === undefined ? {} : { why }), package_sha256 }, key);
  return entries;
}

/** Parses a stored entry. Unknown keys are dropped. Returns an empty list for a damaged entry. */
export function journalEntry(json: string): AliasMove[] {
  try {
    const move = JSON.parse(json) as AliasMove;
    const { alias, from, to } = move;
    return [{ ...journalFields(move), alias, from, to }];
  } catch {
    return [];
  }
}

/**
 * Parses a stored journal without its damaged lines. A line that a crash or a full disk cut off is thus no entry; for
 * any other damage, the chain of the entries is broken.
 */
export const journalEntries = (text: string): AliasMove[] => text.split('\n').flatMap(journalEntry);

/** The text of a journal with further entries. A damaged last line is ended, so that it stays a line of its own. */
export const extendedJournal = (text: string, added: readonly AliasMove[]): string =>
  (text === '' || text.endsWith('\n') ? text : `${text}\n`) + added.map((move) => `${JSON.stringify(move)}\n`).join('');

/**
 * Checks that each entry continues the chain. If keys are given, also checks that one of them signed every alias move
 * that was made through Sluice. Entries of releases without a chain may come first.
 * @throws SluiceError signature_invalid, naming the entry
 */
export const checkJournal = (
  moves: readonly AliasMove[],
  keys: readonly KeyObject[] | null,
): { chained: number; signed: number } =>
  checkChain(moves, textOf, { keys, asked: (move) => move.previous !== undefined && move.who !== 'edited by hand' });

/**
 * The aliases of a model that has no file of aliases: none. Sluice never deletes the file. If the history ends with an
 * alias, the file was lost, and without its champion the model would serve its newest version.
 * @throws SluiceError model_invalid
 */
export function aliasesWithoutFile(file: string, history: readonly AliasMove[]): Record<string, string> {
  const last = new Map(history.map(({ alias, to }) => [alias, to]));
  for (const [alias, to] of last) if (to !== null) throw lostAliases(file, `the history has ${alias}: ${to}`);
  return {};
}

const RESTORE = 'restore the aliases, or write {} if the model has none';

export const lostAliases = (file: string, why: string): SluiceError =>
  new SluiceError('model_invalid', `${file} does not exist, but ${why}: ${RESTORE}`);

/**
 * Reads the aliases; versions become text. A file without any text is rejected, because a crash or a full disk leaves
 * such a file, and without its champion a model would serve its newest version.
 * @throws SluiceError model_invalid, listing every error as file:line:column
 */
export async function readAliases(file: string, text: string): Promise<Record<string, string>> {
  if (/^[\s\0\uFEFF]*$/.test(text)) {
    throw new SluiceError('model_invalid', `${file}:1:1 the file is empty: ${RESTORE}`);
  }
  const read = await readYamlValue(file, text);
  if (!read.ok) throw faulty(read.problems);
  const value = read.value ?? {};
  if (typeof value !== 'object' || Array.isArray(value)) throw faulty(await faultsOf(file, text, null));
  const aliases: Record<string, string> = {};
  const wrong: string[] = [];
  for (const [alias, version] of Object.entries(value)) {
    if (typeof version === 'string' || Number.isInteger(version)) aliases[alias] = String(version);
    else wrong.push(alias);
  }
  if (wrong.length > 0) throw faulty(await faultsOf(file, text, wrong));
  return aliases;
}

/**
 * The errors with their positions. `aliases`: the aliases without a valid version; null if the document is not a map.
 */
async function faultsOf(file: string, text: string, aliases: readonly string[] | null): Promise<YamlProblem[]> {
  const { readYaml } = await import('../../config/yaml.ts');
  const read = readYaml(file, text);
  if (!read.ok) return read.problems;
  if (aliases === null) return [read.at(0, 'the document must be a map of alias to version')];
  const what = 'must name a version: a text or a whole number';
  return aliases.map((alias) => read.atPath([alias], `${alias} ${what}`, true));
}

const faulty = (problems: readonly YamlProblem[]): SluiceError =>
  new SluiceError('model_invalid', problems.map(formatProblem).join('\n'));
