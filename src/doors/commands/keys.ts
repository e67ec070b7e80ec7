// `sluice keys`: who may call the service.
import type { Command } from 'commander';
import { SluiceError } from '../../core/errors.ts';
import { hashToken, newToken, readKeys, SCOPES, type Scope, writeKeys } from '../http/access/api-keys.ts';

interface CreateFlags {
  file: string;
  scopes: string;
  models?: string;
  days?: string;
}

const DAY_MS = 24 * 3600 * 1000;

export function addKeysCommand(program: Command): void {
  const keys = program.command('keys').description('create, list and revoke API keys');
  const file = ['--file <file>', 'file of the keys', 'keys.yaml'] as const;
  keys
    .command('create')
    .argument('<name>', 'who uses it')
    .option(...file)
    .option('--scopes <list>', `some of ${SCOPES.join(',')}`, 'predict,interpret,jobs,models:read')
    .option('--models <list>', 'model ids it may use (default: all)')
    .option('--days <n>', 'valid for so many days (default: until revoked)')
    .action(async (name: string, flags: CreateFlags) => {
      process.stdout.write(`${await createKey(name, flags)}\n`);
      process.stderr.write('This is the only time the token is shown.\n');
    });
  keys
    .command('list')
    .option(...file)
    .action(async (flags: { file: string }) => {
      for (const k of await readKeys(flags.file)) {
        const state =
          k.expires === undefined ? 'no expiry' : Date.parse(k.expires) > Date.now() ? `until ${k.expires}` : 'expired';
        process.stdout.write(`${k.name}\t${k.scopes.join(',')}\t${k.models?.join(',') ?? 'all models'}\t${state}\n`);
      }
    });
  keys
    .command('revoke')
    .argument('<name>')
    .option(...file)
    .action(async (name: string, flags: { file: string }) => {
      const all = await readKeys(flags.file);
      const left = all.filter((k) => k.name !== name);
      if (left.length === all.length) throw new SluiceError('usage', 'there is no key of this name');
      await writeKeys(flags.file, left);
    });
}

/** Adds a key to the file and returns its token, which is kept nowhere. @throws SluiceError usage */
export async function createKey(name: string, flags: CreateFlags): Promise<string> {
  const scopes = flags.scopes.split(',');
  const wrong = scopes.filter((s) => !(SCOPES as readonly string[]).includes(s));
  if (wrong.length > 0) throw new SluiceError('usage', `--scopes takes some of ${SCOPES.join(', ')}`);
  const days = flags.days === undefined ? null : Number(flags.days);
  if (days !== null && !(days > 0)) throw new SluiceError('usage', '--days takes a number above 0');
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
