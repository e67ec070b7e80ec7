// `sluice model approve`, `retire`, `remove` and `history`: change lifecycle states of versions, and record author and
// reason of each change.
import { readFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { SluiceError } from '../../core/errors.ts';
import type { Mover } from '../../model/registry/journal.ts';
import {
  type AliasMove,
  isRemote,
  parseReference,
  type Registry,
  type StateChange,
} from '../../model/registry/registry.ts';
import type { StateEntry } from '../../model/registry/state-journal.ts';
import type { ModelApproveFlags, ModelRetireFlags } from './flags/model-flags.ts';
import { configuredRegistry, openRegistry } from './open-registry.ts';

const out = (text: string): void => {
  process.stdout.write(`${text}\n`);
};
const tell = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

export async function approveVersion(ref: string, flags: ModelApproveFlags): Promise<void> {
  const registry = await openRegistry(flags.registry, { inspects: true });
  const { key, ...said } = flags;
  const by = await moverOf({ ...said, ...(key === undefined ? {} : { signKey: key }) });
  const entry = await change(registry, ref, { to: 'approved', by });
  const added = (await registry.states(parseReference(ref).id)).findLast((e) => e.version === entry.version && e.to === 'proposed'); // biome-ignore format: one line
  if (!entry.signature || !added?.signature) {
    const who = entry.signature ? 'the person who added it did not sign' : 'the approval is not signed';
    tell(
      `${who}: Sluice cannot verify that two different people acted (use model add --sign-key and model approve --key)`,
    );
  }
}

export const retireVersion = (ref: string, flags: ModelRetireFlags): Promise<void> => leave(ref, 'retired', flags);
export const removeVersion = (ref: string, flags: ModelRetireFlags): Promise<void> => leave(ref, 'removed', flags);

async function leave(ref: string, to: 'retired' | 'removed', flags: ModelRetireFlags): Promise<void> {
  const { force, ...said } = flags;
  if ((force === undefined) === (said.reason === undefined)) {
    throw new SluiceError('usage', `give a reason: --reason TEXT, or --force TEXT to override the objections`);
  }
  const registry = await openRegistry(flags.registry, { inspects: true });
  const by = await moverOf({ ...said, ...(force === undefined ? {} : { reason: `forced: ${force}` }) });
  await change(registry, ref, { to, by, force: force !== undefined });
  const address = configuredRegistry(flags.registry);
  if (address !== undefined && isRemote(address)) {
    tell('this registry does not record which processes have loaded a version: they continue with their copies');
  }
}

async function change(
  registry: Registry,
  ref: string,
  { to, by, force = false }: { to: StateChange; by: Mover; force?: boolean },
): Promise<StateEntry> {
  const { id, version } = parseReference(ref);
  if (version === undefined) throw new SluiceError('usage', `specify the version number: ${id}:N`);
  const entry = await registry.setState(id, version, to, by, force);
  out(`${id}:${version}: ${entry.from ?? '(not recorded)'} → ${entry.to}`);
  return entry;
}

/** Author, reason and signing key of a change. @throws SluiceError input_not_found | usage */
export async function moverOf(said: { who?: string; reason?: string; signKey?: string }): Promise<Mover> {
  const { who = whoAmI(), reason, signKey } = said;
  const mover = { who, ...(reason === undefined ? {} : { why: reason }) };
  if (signKey === undefined) return mover;
  const { readKey } = await import('../../proof/envelope.ts');
  return { ...mover, key: readKey(await readText(signKey), 'private', signKey) };
}

export async function showHistory(
  id: string,
  flags: { key?: string; registry?: string; json?: boolean },
): Promise<void> {
  const registry = await openRegistry(flags.registry, { inspects: true });
  const states = await registry.states(parseReference(id).id);
  // A model whose last version was removed is found only in the journal.
  const history = await registry.history(id).catch((error: SluiceError) => {
    if (error.code === 'model_not_found' && states.length > 0) return [];
    throw error;
  });
  const [{ checkJournal }, { checkStates }, { publicKeys }] = await Promise.all([
    import('../../model/registry/aliases.ts'),
    import('../../model/registry/state-journal.ts'),
    import('../../model/registry/trusted.ts'),
  ]);
  const keys = flags.key === undefined ? null : publicKeys(await readText(flags.key), flags.key);
  if (flags.json) out(JSON.stringify({ history, states }));
  else {
    const entries = [...history, ...states].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
    for (const entry of entries) out(lineOf(entry));
  }
  const [aliases, versions] = [checkJournal(history, keys), checkStates(states, keys)];
  for (const [what, all, { chained, signed }] of [['aliases', history, aliases], ['versions', states, versions]] as const) {
    const entries = `${all.length} ${all.length === 1 ? 'entry' : 'entries'}`;
    if (all.length === 0) tell(`${what}: no changes are recorded`);
    else tell(`${what}: ${entries}, ${chained} in one chain${keys === null ? '' : `, ${signed} signed with this key`}`);
  } // biome-ignore format: one line
}

/** Formats one entry for people. */
export function lineOf(entry: AliasMove | StateEntry): string {
  const { at, who, why, from, to } = entry;
  const what = 'alias' in entry ? `${entry.alias} ${from ?? '(none)'} → ${to ?? '(removed)'}` : `version ${entry.version} ${from === null ? '' : `${from} → `}${to}`; // biome-ignore format: one line
  return `${at} ${who}: ${what}${why === undefined ? '' : ` because ${why}`}`;
}

/** @throws SluiceError input_not_found */
export async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new SluiceError('input_not_found', `${file} cannot be opened`, { cause });
  }
}

/** Name of the current user. */
export function whoAmI(): string {
  try {
    return userInfo().username;
  } catch {
    return 'unknown';
  }
}
