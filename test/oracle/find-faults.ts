// Plants each fault in a copy of the sources, one at a time, and looks how many combinations it takes to be found.
//
// node test/oracle/find-faults.ts [most combinations] [part of parts, such as 1/2]
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { FAULTS } from './faults.ts';

const [most = '1000', part = '1/1'] = process.argv.slice(2);
const [which, parts] = part.split('/').map(Number) as [number, number];
const copy = mkdtempSync(path.join(tmpdir(), 'sluice-faults-'));
for (const name of ['src', 'test/oracle', 'test/frames/packages', 'test/support', 'package.json', 'tsconfig.json']) {
  cpSync(name, path.join(copy, name), { recursive: true });
}
symlinkSync(path.resolve('node_modules'), path.join(copy, 'node_modules'));

/** Combinations until a difference was seen; null: none was. */
function combinationsToFind(): { found: number | null; how: string } {
  const run = spawnSync(process.execPath, ['test/oracle/first-difference.ts', most], {
    cwd: copy,
    encoding: 'utf8',
    timeout: 600_000,
  });
  const line = run.stdout.trim().split('\n').at(-1) ?? '';
  if (run.status === 0 && line.startsWith('none')) return { found: null, how: '' };
  const at = /^(\d+) (.*)$/.exec(line);
  // A process that dies has found something, too: what it printed last says what.
  return at
    ? { found: Number(at[1]), how: at[2]! }
    : { found: 0, how: (run.stderr || line).slice(-200).replaceAll('\n', ' ') };
}

let found = 0;
let tried = 0;
const clean = combinationsToFind();
if (clean.found !== null) throw new Error(`without any fault there is a difference: ${clean.how}`);
for (const [i, fault] of FAULTS.entries()) {
  if (i % parts !== which - 1) continue;
  const file = path.join(copy, fault.file);
  const source = readFileSync(file, 'utf8');
  if (source.split(fault.find).length !== 2) throw new Error(`${fault.name}: its text is not in ${fault.file} once`);
  writeFileSync(
    file,
    source.replace(fault.find, () => fault.put),
  );
  const result = combinationsToFind();
  writeFileSync(file, source);
  tried++;
  if (result.found !== null) found++;
  console.log(
    `${result.found === null ? 'NOT FOUND' : `after ${result.found}`.padEnd(11)} ${fault.name} (${fault.file}) ${result.how.slice(0, 120)}`,
  );
}
console.log(`${found} of ${tried} faults found within ${most} combinations`);
rmSync(copy, { recursive: true, force: true });
