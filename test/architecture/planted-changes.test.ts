// Campaigns change the sources at places that they name by file and text. A moved text fails here, not after hours.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { FAULTS } from '../oracle/faults.ts';
import { RUN_FAULTS } from '../oracle/run-faults.ts';
import { COST_DEFENCES } from '../security/cost-defences.ts';
import { DEFENCES } from '../security/defences.ts';

test.each([
  ['faults of decoders and sinks', FAULTS],
  ['faults of runs', RUN_FAULTS],
  ['defences', DEFENCES],
  ['defences against cost', COST_DEFENCES],
])('%s name texts of the sources', (_, changes) => {
  expect(changes.length).toBeGreaterThan(10);
  const lost = changes.filter(({ file, find }) => !readFileSync(file, 'utf8').includes(find));
  expect(lost.map(({ file, find }) => `${file}: ${find}`)).toEqual([]);
});
