// ONNX Runtime reports models and hardware to its manufacturer, unless this is switched off: then it leaves no files for reports.
import { spawnSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { MAIN, scratch } from '../support/cli.ts';

const MODEL = path.resolve('src/bundled/credit-default/1/model.onnx');
/** Files of a session that may report: its identity, unsent reports and an empty file per process. */
const TRACES = /Microsoft|mat-debug|\.ses$/;

/** Runs Node as a user without settings; gives its exit code, its errors and the traces that it leaves. */
function run(...args: string[]) {
  const home = scratch();
  // A variable CI suppresses the telemetry, too.
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const env = { PATH, NODE_COMPILE_CACHE, HOME: home, TMPDIR: home };
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: home, env, encoding: 'utf8' });
  const left = readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((name) => TRACES.test(name));
  return { status, stderr, left };
}

const IN_LIBRARY = `
import { createReadStream } from 'node:fs';
import { openModel, scoreStream } from ${JSON.stringify(path.resolve('src/index.ts'))};
await using model = await openModel('credit-default', { workers: 1, evaluator: 'onnxruntime' });
for await (const _ of scoreStream(model, createReadStream(process.argv[2]), { format: 'csv' }));
`;

/** A file of applications. */
function applications(): string {
  const file = path.join(scratch(), 'rows.csv');
  expect(run(MAIN, 'generate', '--rows', '20', '-o', file)).toMatchObject({ status: 0 });
  return file;
}

test('a session without the switch leaves what this test looks for', () => {
  const code = `require(${JSON.stringify(path.resolve('node_modules/onnxruntime-node'))}).InferenceSession.create(process.argv[1])`;
  const { status, stderr, left } = run('-e', code, MODEL);
  expect([status, stderr]).toEqual([0, '']);
  expect(left).not.toEqual([]);
});

test.each(['onnxruntime', 'auto'])('sluice score --evaluator %s', (evaluator) => {
  const flags = ['-m', 'credit-default', '-o', 'scored.csv', '--evaluator', evaluator];
  expect(run(MAIN, 'score', applications(), ...flags)).toMatchObject({ status: 0, left: [] });
});

test('the library', () => {
  const program = path.join(scratch(), 'score.ts');
  writeFileSync(program, IN_LIBRARY);
  const { status, stderr, left } = run('--disable-warning=ExperimentalWarning', program, applications());
  expect([status, stderr, left]).toEqual([0, '', []]);
});
