// The same combinations on the reference path, which is chosen once for a process: csv-parse and JSON.parse, without a kernel.
import { test, vi } from 'vitest';
import { cross, openJudge } from './cross.ts';

vi.hoisted(() => {
  process.env.SLUICE_DECODER = 'reference';
});

openJudge();

test('files', () => cross({ entries: ['command', 'pipeline'], models: ['trees', 'classes', 'value'] }, 0.01));

test('programs and requests', () =>
  cross({ entries: ['library', 'http'], models: ['trees', 'classes', 'value'] }, 0.05));
