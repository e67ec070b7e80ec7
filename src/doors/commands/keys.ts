// `sluice keys`: who may call the service.
import type { Command } from 'commander';
import { SCOPES, type Scope } from '../../config/scopes.ts';
import { SluiceError } from '../../core/errors.ts';
import {
  COMMAND_GROUPS_TABLE,
  COMMAND_TABLES,
  type KeysCreateFlags,
  type KeysListFlags,
  type KeysRevokeFlags,
} from './flag-tables.ts';
import { addFlags } from './flags.ts';

const DAY_MS = 24 * 3600 * 1000;

/** Reading keys takes the schema library, which help does not. */
const openKeys = () => import('../http/access/api-keys.ts');

export function addKeysCommand(program: Command): void {
  const keys = program.command('keys').description(COMMAND_GROUPS_TABLE.keys!);
  addFlags(keys.command('create'), COMMAND_TABLES['keys create']).action(
    async (name: string, flags: KeysCreateFlags) => {
      process.stdout.write(`${await createKey(name, flags)}\n`);
      process.stderr.write('This is the only time the token is shown.\n');
    },
  );
  addFlags(keys.command('list'), COMMAND_TABLES['keys list']).action(async (flags: KeysListFlags) => {
    const { readKeys } = await openKeys();
    for (const k of await readKeys(flags.file)) {
      const state =
        k.expires === undefined ? 'no expiry' : Date.parse(k.expires) > Date.now() ? `until ${k.expires}` : 'expired';
      process.stdout.write(`${k.name}\t${k.scopes.join(',')}\t${k.models?.join(',') ?? 'all models'}\t${state}\n`);
    }
  });
  addFlags(keys.command('revoke'), COMMAND_TABLES['keys revoke']).action(
    async (name: string, flags: KeysRevokeFlags) => {
      const { readKeys, writeKeys } = await openKeys();
      const all = await readKeys(flags.file);
      const left = all.filter((k) => k.name !== name);
      if (left.length === all.length) throw new SluiceError('usage', 'there is no key of this name');
      await writeKeys(flags.file, left);
    },
  );
}

/** Adds a key to the file and returns its token, which is kept nowhere. @throws SluiceError usage */
export async function createKey(name: string, flags: KeysCreateFlags): Promise<string> {
  const scopes = flags.scopes.split(',');
  const wrong = scopes.filter((s) => !(SCOPES as readonly string[]).includes(s));
  if (wrong.length > 0) throw new SluiceError('usage', `--scopes takes some of ${SCOPES.join(', ')}`);
  const days = flags.days === undefined ? null : Number(flags.days);
  if (days !== null && !(days > 0)) throw new SluiceError('usage', '--days takes a number above 0');
  const { hashToken, newToken, readKeys, writeKeys } = await openKeys();
  const all = await readKeys(flags.file);
  if (all.some((k) => k.name === name)) throw new SluiceError('usage', 'a key of this name is there already');
  const token = newToken();
  await writeKeys(flags.file, [
    ...all,
    {
      name,
      sha256: hashToken(token),
      scopes: scopes as Scope[],
      ...(flags.models === undefined ? {} : { models: flags.models.split(',') }),
      ...(days === null ? {} : { expires: new Date(Date.now() + days * DAY_MS).toISOString() }),
      created: new Date().toISOString(),
    },
  ]);
  return token;
}
