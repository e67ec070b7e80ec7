// SLUICE_DUMP_WAT=folder: every kernel that is assembled is written there as text, to be read beside a stack trace.

import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { printWat } from './print-wat.ts';

type Printer = { printWat: typeof printWat };

const FOLDER = process.env.SLUICE_DUMP_WAT;

/** Kernels that are alike, of several streams or workers, share a file. */
export function dumpWat(name: string, code: Uint8Array): void {
  if (!FOLDER) return;
  // Loaded on first use, and at once, because kernels are assembled in a synchronous step. Types are not stripped from a path in text.
  const { printWat } = createRequire(import.meta.url)(`./print-wat${path.extname(import.meta.url)}`) as Printer;
  const { crc32 } = process.getBuiltinModule('node:zlib');
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(path.join(FOLDER, `${name}-${crc32(code).toString(16).padStart(8, '0')}.wat`), printWat(code));
}
