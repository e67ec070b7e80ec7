// `sluice init`: creates a project that passes `lint` and `test`, and that can be served without changes.
import { existsSync } from 'node:fs';
import { userInfo } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { addFlags } from './flags/command-spec.ts';
import { SERVICE_COMMANDS } from './flags/service-flags.ts';
import { BUNDLED_MODELS } from './open-registry.ts';

/** The launcher of a checkout. Images do not contain this file. */
const LAUNCHER = fileURLToPath(new URL('../../../bin/sluice.js', import.meta.url));

/** Files that the registry writes when the alias is moved. */
const ALIAS_FILES = ['aliases.yaml', 'aliases.history.jsonl'].map((name) => `models/credit-default/${name}`);

export function addInitCommand(program: Command): void {
  addFlags(program.command('init'), SERVICE_COMMANDS.init).action(async (folder: string = '.') => {
    const [{ writeProject }, { FolderRegistry }, { devCertificate }] = await Promise.all([
      import('../../project/write-project.ts'),
      import('../../model/registry/folder.ts'),
      import('../http/wire/listener.ts'),
    ]);
    const files = await writeProject({
      folder: path.resolve(folder),
      models: BUNDLED_MODELS,
      modelIds: ['credit-default'],
      certificate: await devCertificate(),
      program: [process.execPath, existsSync(LAUNCHER) ? LAUNCHER : path.resolve(process.argv[1]!)],
      user: userInfo().username,
    });
    const registry = new FolderRegistry([path.resolve(folder, 'models')]);
    const by = { who: userInfo().username, why: 'first version, written by sluice init' };
    await registry.moveAlias('credit-default', 'champion', '1', by);
    process.stdout.write([...files, ...ALIAS_FILES].map((name) => `${path.join(folder, name)}\n`).join(''));
    process.stderr.write(`created a project in ${folder}; see its README.md for the next steps\n`);
  });
}
