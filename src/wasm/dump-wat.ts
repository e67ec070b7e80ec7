// SLUICE_DUMP_WAT=folder: every kernel that is assembled is written there as text, to be read beside a stack trace.

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { printWat } from './print-wat.ts';

const FOLDER = process.env.SLUICE_DUMP_WAT;

/** Kernels that are alike, of several streams or workers, share a file. */
export function dumpWat(name: string, code: Uint8Array): void {
  if (!FOLDER) return;
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(path.join(FOLDER, `${name}-${crc32(code).toString(16).padStart(8, '0')}.wat`), printWat(code));
}
