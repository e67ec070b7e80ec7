// Functions have up to 70 lines; only emitters of kernels are longer, and each says why.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

interface Override {
  includes: string[];
  linter: { rules: { complexity?: { noExcessiveLinesPerFunction?: unknown } } };
}

const WHY = 'The function is long because an emitter is most readable in the order of its instructions.';

test('only emitters are exempt from the limit of a function, and each says why', () => {
  const { overrides } = JSON.parse(readFileSync('biome.json', 'utf8')) as { overrides: Override[] };
  const exempt = overrides
    .filter((o) => o.linter.rules.complexity?.noExcessiveLinesPerFunction !== undefined)
    .flatMap((o) => o.includes);
  expect(exempt.filter((f) => !f.startsWith('src/'))).toEqual(['test/**', 'bench/**']);
  const files = exempt.filter((f) => f.startsWith('src/'));
  expect(files).toHaveLength(3);
  for (const file of files) {
    const text = readFileSync(file, 'utf8');
    expect(text, file).toMatch(/^import .*\bWasmFunction\b.* from '.*\/wasm\/function\.ts';$/m);
    expect(text.replace(/\s*\n \*\s*/g, ' '), file).toContain(WHY);
  }
});
