// `sluice keys`: creates, lists, rotates and revokes API keys of the service.
import type { Command } from 'commander';
import { SCOPES, type Scope } from '../../config/scopes.ts';
import { epochMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { addFlags, COMMAND_GROUPS } from './flags/command-spec.ts';
import {
  type KeysCreateFlags,
  type KeysListFlags,
  type KeysRevokeFlags,
  type KeysRotateFlags,
  SERVICE_COMMANDS,
} from './flags/service-flags.ts';

const DAY_MS = 24 * 3600 * 1000;

/** Imported on demand: reading keys needs the schema library, which the help must not load. */
const openKeys = () => import('../http/access/keys-file.ts');

export function addKeysCommand(program: Command): void {
  const keys = program.command('keys').description(COMMAND_GROUPS.keys);
  addFlags(keys.command('create'), SERVICE_COMMANDS['keys create']).action(
    async (name: string, flags: KeysCreateFlags) => {
      process.stdout.write(`${await createKey(name, flags)}\n`);
      process.stderr.write('This is the only time the token is shown.\n');
    },
  );
  addFlags(keys.command('list'), SERVICE_COMMANDS['keys list']).action(async (flags: KeysListFlags) => {
    const { readKeys } = await openKeys();
    for (const k of await readKeys(flags.file)) {
      const state =
        k.expires === undefined ? 'no expiry' : Date.parse(k.expires) > epochMs() ? `until ${k.expires}` : 'expired';
      const living = (k.previous ?? []).filter((p) => Date.parse(p.expires) > epochMs());
      const old = living.map((p) => `, previous token until ${p.expires}`).join('');
      process.stdout.write(
        `${k.name}\t${k.scopes.join(',')}\t${k.models?.join(',') ?? 'all models'}\t${state}${old}\n`,
      );
    }
  });
  addFlags(keys.command('rotate'), SERVICE_COMMANDS['keys rotate']).action(
    async (name: string, flags: KeysRotateFlags) => {
      const { token, until } = await rotateKey(name, flags);
      process.stdout.write(`${token}\n`);
      const old = until === null ? 'The previous token no longer works.' : `The previous token works until ${until}.`;
      process.stderr.write(`This is the only time the token is shown. ${old}\n`);
    },
  );
  addFlags(keys.command('revoke'), SERVICE_COMMANDS['keys revoke']).action(
    async (name: string, flags: KeysRevokeFlags) => {
      const { changeKeys } = await openKeys();
      await changeKeys(flags.file, (all) => {
        const left = all.filter((k) => k.name !== name);
        if (left.length === all.length)
          throw new SluiceError('usage', 'no key has this name; sluice keys list shows the names');
        return left;
      });
    },
  );
}

/** Adds a key to the file and returns the key's token. The token itself is not stored. @throws SluiceError usage */
export async function createKey(name: string, flags: KeysCreateFlags): Promise<string> {
  const scopes = flags.scopes.split(',');
  const wrong = scopes.filter((s) => !(SCOPES as readonly string[]).includes(s));
  if (wrong.length > 0) throw new SluiceError('usage', `--scopes takes a list of ${SCOPES.join(', ')}`);
  const days = daysOf(flags);
  const { assertFreeName, changeKeys, hashToken, newToken } = await openKeys();
  assertFreeName(name, (what) => {
    throw new SluiceError('usage', what);
  });
  const token = newToken();
  await changeKeys(flags.file, (all) => {
    if (all.some((k) => k.name === name)) throw new SluiceError('usage', 'a key with this name already exists');
    const key = {
      name,
      sha256: hashToken(token),
      scopes: scopes as Scope[],
      ...(flags.models === undefined ? {} : { models: flags.models.split(',') }),
      ...(days === null ? {} : { expires: new Date(epochMs() + days * DAY_MS).toISOString() }),
      created: new Date(epochMs()).toISOString(),
    };
    return [...all, key];
  });
  return token;
}

/**
 * Issues a new token. The old token expires after `grace`, or immediately if `grace` is null.
 * @throws SluiceError usage
 */
export async function rotateKey(
  name: string,
  flags: KeysRotateFlags,
): Promise<{ token: string; until: string | null }> {
  const days = daysOf(flags);
  const grace = graceMs(flags.grace);
  const { changeKeys, hashToken, newToken, rotated } = await openKeys();
  const token = newToken();
  let until: string | null = null;
  await changeKeys(flags.file, (all) => {
    const key = all.find((k) => k.name === name);
    if (!key) throw new SluiceError('usage', 'no key has this name; sluice keys list shows the names');
    const lifetime = days === null ? lifetimeMs(key) : days * DAY_MS;
    if (Number.isNaN(lifetime)) {
      throw new SluiceError('usage', 'the key expires, but the file lacks its creation time: use --days');
    }
    const now = epochMs();
    const next = {
      ...rotated(key, hashToken(token), { now, until: now + grace }),
      ...(lifetime === null ? {} : { expires: new Date(now + lifetime).toISOString() }),
    };
    until = next.previous?.at(-1)?.expires ?? null;
    return all.map((k) => (k === key ? next : k));
  });
  return { token, until };
}

/** Lifetime of a key in ms; null if the key is valid until revoked, NaN if unknown. */
const lifetimeMs = ({ created, expires }: { created?: string; expires?: string }): number | null =>
  expires === undefined ? null : Date.parse(expires) - Date.parse(created ?? '');

/** @throws SluiceError usage */
function daysOf({ days }: { days?: number }): number | null {
  if (days === undefined) return null;
  if (!(Number(days) > 0)) throw new SluiceError('usage', '--days takes a number above 0');
  return Number(days);
}

const UNITS_MS = { s: 1000, m: 60_000, h: 3_600_000, d: DAY_MS };

/** @throws SluiceError usage */
function graceMs(text: string): number {
  const [, n, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? [];
  if (n !== undefined) return Number(n) * UNITS_MS[unit as keyof typeof UNITS_MS];
  if (text === '0') return 0;
  throw new SluiceError('usage', '--grace takes a whole number with s, m, h or d, such as 24h, or 0');
}
