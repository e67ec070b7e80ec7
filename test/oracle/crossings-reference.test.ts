// The same combinations on the reference path, which is chosen once for a process: csv-parse and JSON.parse, without a kernel.
import '../support/reference-decoder.ts';
import { test } from 'vitest';
import { TIER } from '../support/tiers.ts';
import { cross, openJudge } from './cross.ts';

openJudge();

test('files', () =>
  cross(
    { entries: ['command', 'pipeline'], models: ['trees', 'classes', 'value'] },
    TIER === 'campaigns' ? 0.002 : 0.05,
  ));

test('programs and requests', () =>
  cross({ entries: ['library', 'http'], models: ['trees', 'classes', 'value'] }, 0.05));
