// The notebook from training to a served and explained model: its cells run in order.
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { MAIN, scratch } from '../support/cli.ts';
import { pythonWith } from '../support/python-environment.ts';
import { campaignTest } from '../support/tiers.ts';

const CELLS = `
import json, sys
scope = {}
cells = [cell for cell in json.load(open(sys.argv[1]))["cells"] if cell["cell_type"] == "code"]
for number, cell in enumerate(cells, 1):
    exec(compile("".join(cell["source"]), f"cell {number}", "exec"), scope)
print(len(cells), "cells ran")
`;

campaignTest('examples/credit.ipynb: every cell runs', async () => {
  const found = await pythonWith(path.join('clients', 'python', 'tests', 'service', 'requirements.txt'));
  if ('missing' in found) throw new Error(`this needs ${found.missing}`);
  const folder = scratch();
  const program = path.join(folder, 'cells.py');
  writeFileSync(program, CELLS);
  const env = {
    ...process.env,
    PYTHONPATH: path.resolve('clients/python/src'),
    PYTHONWARNINGS: 'ignore',
    SLUICE_COMMAND: `'${process.execPath}' --disable-warning=ExperimentalWarning '${MAIN}'`,
    TMPDIR: folder,
  };
  const { stdout } = await promisify(execFile)(found.python, [program, path.resolve('examples/credit.ipynb')], { env });
  expect(stdout).toContain('column credit_product_id contains numbers (float64), but the model takes text');
  expect(stdout).toMatch(/\n9 cells ran\n$/);
});
