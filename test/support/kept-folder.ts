// Where a run of the tests keeps what is found out about models: nowhere that an earlier run or the user's own Sluice has been.
import { existsSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { offerBroker } from './kafka/shared-broker.ts';

export const KEPT_FOLDER = path.join(tmpdir(), `sluice-tests-${process.pid}`);

/** Where processes say that they use the bundled model. The last one removes the folder, which a test may be listing. */
const IN_USE = ['src', 'dist'].map((folder) => path.resolve(folder, 'bundled/credit-default/.in-use'));
const KEEPER = `tests-${process.pid}`;

let endBroker: (() => Promise<void>) | undefined;

/**
 * Vitest calls it before any test: its processes, their worker threads and their children share compiled code, in the folder that `sluice`
 * itself uses with this cache.
 */
export async function setup(): Promise<void> {
  process.env.NODE_COMPILE_CACHE ??= path.join(KEPT_FOLDER, 'code');
  for (const folder of IN_USE) {
    if (!existsSync(path.dirname(folder))) continue;
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, KEEPER), '');
  }
  endBroker = await offerBroker(KEPT_FOLDER);
}

/** Vitest calls it at the end. */
export async function teardown(): Promise<void> {
  await endBroker?.();
  rmSync(KEPT_FOLDER, { recursive: true, force: true });
  for (const folder of IN_USE) {
    rmSync(path.join(folder, KEEPER), { force: true });
    try {
      rmdirSync(folder);
    } catch {}
  }
}
