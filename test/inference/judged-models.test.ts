// What was found out about a model in a process is not taken for a changed file under the hash of that model.
import { appendFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { judge } from '../../src/inference/sandbox/verdict.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { scratch } from '../support/cli.ts';
import { copyUnlocked } from '../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';

test('a changed model.onnx is refused, although the model of its hash was judged before', async () => {
  const folder = path.join(scratch(), 'credit-default', '1');
  copyUnlocked(CREDIT_DEFAULT, folder);
  expect((await judge(await loadPackage(folder), 'auto').known).verdict).not.toBeNull();
  const { onnx } = (await loadPackage(folder)).manifest;
  appendFileSync(path.join(folder, onnx.file), '\0');
  const changed = await loadPackage(folder).catch((error: unknown) => error);
  const judged = changed instanceof Error ? Promise.reject(changed) : judge(changed as never, 'auto').known;
  await expect(judged).rejects.toMatchObject({ code: 'model_hash_mismatch' });
});
