// An upload goes on behind the lines that are written only with the body that was acknowledged.
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { assertUnchanged } from '../../src/runs/upload-run.ts';
import { scratch } from '../support/cli.ts';

test('another body, a shorter or a longer one ends the attempt', async () => {
  const file = path.join(scratch(), 'upload');
  const body = 'a,b\n1,2\n3,4\n';
  const sha256 = createHash('sha256').update(body).digest('hex');
  writeFileSync(file, body);
  await assertUnchanged(file, sha256);
  await assertUnchanged(file, null);
  for (const other of [body.replace('3', '5'), body.slice(0, -1), `${body}5,6\n`, '']) {
    writeFileSync(file, other);
    await expect(assertUnchanged(file, sha256)).rejects.toMatchObject({ code: 'digest_mismatch' });
  }
});
