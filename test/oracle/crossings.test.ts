// Combinations of features through every entry point do what the oracle says, field by field.
import { test } from 'vitest';
import { TIER } from '../support/tiers.ts';
import { ENTRIES, type Entry } from './combinations.ts';
import { cross, openJudge } from './cross.ts';

openJudge();

const MODELS = ['trees', 'classes', 'value'] as const;
/** Of few combinations most go through commands, which have the most to cross; of very many, through what is fast. */
const SHARES: Record<Entry, number> =
  TIER === 'campaigns'
    ? { command: 0.015, pipeline: 0.003, shards: 0.0005, library: 0.93, http: 0.05 }
    : { command: 0.35, pipeline: 0.06, shards: 0.03, library: 0.35, http: 0.2 };

test.each(ENTRIES)('%s', (entry) => cross({ entries: [entry], models: MODELS }, SHARES[entry]));

test('a model that ONNX Runtime serves', () =>
  cross({ entries: ['library', 'http'], models: ['typed-columns'] }, 0.01));
