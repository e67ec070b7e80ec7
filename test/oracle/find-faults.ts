// Plants each fault in a copy of the sources, one at a time, and looks how many combinations it takes to be found.
//
// node test/oracle/find-faults.ts [most combinations] [part of parts, such as 1/2] [rows|runs|both: which faults] [names: a regular expression]
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { TEST_TIMEOUT_MS } from '../support/patience.ts';
import { FAULTS, type Fault } from './faults.ts';
import { RUN_FAULTS } from './run-faults.ts';

const [most = '1000', part = '1/1', list = 'both', names = ''] = process.argv.slice(2);
const listed: readonly Fault[] = { rows: FAULTS, runs: RUN_FAULTS }[list] ?? [...FAULTS, ...RUN_FAULTS];
const faults = listed.filter(({ name }) => new RegExp(names).test(name));
const [which, parts] = part.split('/').map(Number) as [number, number];
const copy = mkdtempSync(path.join(tmpdir(), 'sluice-faults-'));
for (const name of ['src', 'test/oracle', 'test/frames/packages', 'test/support', 'package.json', 'tsconfig.json']) {
  cpSync(name, path.join(copy, name), { recursive: true });
}
symlinkSync(path.resolve('node_modules'), path.join(copy, 'node_modules'));

/** `found`: combinations until a difference was seen. A crash is no difference: the fault may just be no program. */
type Search = { found: number; how: string } | 'none' | { crashed: string };

function search(script = 'first-difference.ts'): Search {
  const run = spawnSync(process.execPath, [`test/oracle/${script}`, most], {
    cwd: copy,
    encoding: 'utf8',
    timeout: TEST_TIMEOUT_MS,
  });
  const line = run.stdout.trim().split('\n').at(-1) ?? '';
  if (run.status === 0 && line.startsWith('none')) return 'none';
  const at = /^(\d+) (.*)$/.exec(line);
  // A signal from outside is not the work of the fault.
  const isStopped = run.signal !== null || /stopped by SIG|terminated/.test(line + run.stderr);
  if (!at || isStopped) return { crashed: (run.stderr || line).slice(-200).replaceAll('\n', ' ') };
  return { found: Number(at[1]), how: at[2]! };
}

const shown = (result: Search): [verdict: string, how: string] =>
  result === 'none'
    ? ['NOT FOUND', '']
    : 'crashed' in result
      ? ['CRASHED', result.crashed]
      : [`after ${result.found}`, result.how];

let found = 0;
let tried = 0;
for (const script of new Set(faults.map((fault) => fault.script))) {
  const clean = search(script);
  if (clean !== 'none') throw new Error(`without any fault: ${shown(clean).join(' ')}`);
}
for (const [i, fault] of faults.entries()) {
  if (i % parts !== which - 1) continue;
  const file = path.join(copy, fault.file);
  const source = readFileSync(file, 'utf8');
  if (source.split(fault.find).length !== 2) throw new Error(`${fault.name}: its text is not in ${fault.file} once`);
  writeFileSync(
    file,
    source.replace(fault.find, () => fault.put),
  );
  const result = search(fault.script);
  writeFileSync(file, source);
  tried++;
  if (result !== 'none' && 'found' in result) found++;
  const [verdict, how] = shown(result);
  console.log(`${verdict.padEnd(11)} ${fault.name} (${fault.file}) ${how.slice(0, 120)}`);
}
console.log(`${found} of ${tried} faults found within ${most} combinations`);
rmSync(copy, { recursive: true, force: true });
