// `sluice doctor`: what is in order, and what is wrong with its reason.
import { cpSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import { checkTest } from '../../support/tiers.ts';

test('a machine that can score says so; a damaged model, a missing certificate and keys are named', async () => {
  const fine = await sluiceHere(['doctor']);
  expect([fine.code, fine.stdout]).toEqual([0, expect.stringContaining('ok      evaluator: ONNX Runtime loads')]);
  const folder = scratch();
  const models = path.join(folder, 'models');
  cpSync(CREDIT_DEFAULT, path.join(models, 'credit-default', '1'), { recursive: true });
  writeFileSync(path.join(models, 'credit-default', '1', 'model.onnx'), 'no model');
  writeFileSync(path.join(folder, 'sluice.yaml'), 'tls: { certificate: none.crt, key: none.key }\n');
  const { code, stdout } = await sluiceHere(['doctor', '-c', 'sluice.yaml', '--registry', models, '--json'], {
    cwd: folder,
  });
  const wrong = (
    JSON.parse(stdout) as { findings: { check: string; state: string; message: string }[] }
  ).findings.filter((f) => f.state === 'wrong');
  expect(code).toBe(1);
  expect(wrong.map((f) => f.check).sort()).toEqual(['certificate', 'keys', 'model credit-default']);
  expect(wrong.find((f) => f.check === 'model credit-default')!.message).toContain('[model_hash_mismatch]');
});

checkTest('the folder of the audit log is checked, also before it exists', async () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'file'), '');
  const audit = async (file: string) => {
    writeFileSync(path.join(folder, 'sluice.yaml'), `audit: { file: ${file} }\n`);
    return (await sluiceHere(['doctor', '-c', 'sluice.yaml'], { cwd: folder })).stdout;
  };
  expect(await audit('new/audit/audit.ndjson')).toMatch(/ok {6}audit folder: new\/audit can be written, \d+ MB free/);
  expect(await audit('file/audit.ndjson')).toMatch(/WRONG {3}audit folder: .*file is not a folder \[folder_unusable\]/);
});
