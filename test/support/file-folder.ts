// Folders for as long as the tests of a file run; `scratch` of cli.ts is for a single test.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';

const folders: string[] = [];

// Hooks of the file itself come after this one, and run before it.
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

export function fileFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-test-'));
  folders.push(folder);
  return folder;
}
