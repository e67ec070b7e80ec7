// What `tuneGarbageCollector` asks of V8 are flags that may mean nothing in another version: this would show it.
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from 'vitest';

interface Spaces {
  newSpace: number;
  heap: number;
}

/** Most bytes of the new space and of the heap while records go through, many of which outlive some collections. */
function spacesAfter(bound: boolean): Spaces {
  const room = path.resolve(import.meta.dirname, '../../src/runs/start-run.ts');
  const script = `
import v8 from 'node:v8';
import { tuneGarbageCollector } from ${JSON.stringify(room)};
if (${bound}) tuneGarbageCollector();
const held = [];
let heap = 0;
for (let i = 0; i < 1_200_000; i++) {
  held[i % 100_000] = { key: [i], value: { headers: [i, i + 1], offset: BigInt(i) } };
  if (i % 50_000 === 0) heap = Math.max(heap, v8.getHeapStatistics().used_heap_size);
}
const { space_size } = v8.getHeapSpaceStatistics().find((s) => s.space_name === 'new_space');
console.log(JSON.stringify({ newSpace: space_size, heap }));
`;
  return JSON.parse(
    execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' }),
  ) as Spaces;
}

test('neither the new space nor the heap grows far beyond what lives', () => {
  const free = spacesAfter(false);
  const bound = spacesAfter(true);
  expect(free.newSpace).toBeGreaterThan(20e6);
  expect(bound.newSpace).toBeLessThan(free.newSpace / 2);
  expect(bound.heap).toBeLessThan(free.heap * 0.8);
});
