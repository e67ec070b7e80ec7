// Tests that need a real PostgreSQL: left to `npm run check`, skipped by name where there is none to be had, failing where there must be.
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { describe } from 'vitest';
import { IN_CHECK, SKIPPED, TIER } from '../tiers.ts';
import { isRequired } from '../tools.ts';

const DEBIAN = '/usr/lib/postgresql';

/** The folder of initdb and postgres, the newest there is; null: nowhere. */
export function postgresPrograms(): string | null {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...versions.map((v) => path.join(DEBIAN, v, 'bin')),
    ...(process.env.PATH ?? '').split(path.delimiter),
  ];
  return folders.find((folder) => existsSync(path.join(folder, 'initdb'))) ?? null;
}

const MISSING = 'PostgreSQL (apt-get install postgresql)';
/** SLUICE_REQUIRE=postgres: they run whatever the tier, and what is missing is an error. */
const required = isRequired('postgres');
const left = TIER === 'quick' && !required;

/** `describe` for suites with a real PostgreSQL. */
export function requirePostgres(name: string, suite: () => void): void {
  const missing = !left && postgresPrograms() === null;
  if (missing && required) throw new Error(`${name}: needs ${MISSING}`);
  if (left) describe.skip(`${name}${SKIPPED}${IN_CHECK} with PostgreSQL`, suite);
  else if (missing) describe.skip(`${name}${SKIPPED}needs ${MISSING}`, suite);
  else describe(name, suite);
}
