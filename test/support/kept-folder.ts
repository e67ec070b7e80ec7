// Where a run of the tests keeps what is found out about models: nowhere that an earlier run or the user's own Sluice has been.
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export const KEPT_FOLDER = path.join(tmpdir(), `sluice-tests-${process.pid}`);

/** Vitest calls it at the end. */
export const teardown = (): void => rmSync(KEPT_FOLDER, { recursive: true, force: true });
