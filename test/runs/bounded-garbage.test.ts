// What `boundGarbage` asks of V8 is a flag that may mean nothing in another version: this would show it.
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from 'vitest';

/** Bytes of the new space after records went through, most of which outlive one collection. */
function newSpaceAfter(bound: boolean): number {
  const room = path.resolve(import.meta.dirname, '../../src/runs/bounded-garbage.ts');
  const script = `
import v8 from 'node:v8';
import { boundGarbage } from ${JSON.stringify(room)};
if (${bound}) boundGarbage();
const held = [];
for (let i = 0; i < 600_000; i++) {
  held[i % 100_000] = { key: [i], value: { headers: [i, i + 1], offset: BigInt(i) } };
}
console.log(v8.getHeapSpaceStatistics().find((s) => s.space_name === 'new_space').space_size);
`;
  return Number(execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' }));
}

test('the new space does not grow with what passes through', () => {
  const free = newSpaceAfter(false);
  expect(free).toBeGreaterThan(20e6);
  expect(newSpaceAfter(true)).toBeLessThan(free / 2);
});
