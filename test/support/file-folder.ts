// Folders for as long as the tests of a file run; `scratch` of cli.ts is for a single test.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { atFileEnd } from './file-end.ts';

export function fileFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-test-'));
  atFileEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
