// Network file systems report a failed write when a file is closed.
import { readdirSync } from 'node:fs';
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { AuditLog } from '../../src/audit/audit-log.ts';
import { verifyChain } from '../../src/audit/verify-chain.ts';
import { scratch } from '../support/cli.ts';

/** Lets the first call of `close` on a file that was opened for appending fail after the file is closed. */
function failFirstClose(): void {
  const { open } = fs;
  let closes = 0;
  fs.open = async (...args: Parameters<typeof open>) => {
    const handle = await open(...args);
    const close = handle.close.bind(handle);
    if (args[1] === 'a')
      handle.close = async () => {
        await close();
        if (closes++ === 0) throw new Error('EIO');
      };
    return handle;
  };
  syncBuiltinESMExports();
  onTestFinished(() => {
    fs.open = open;
    syncBuiltinESMExports();
  });
}

test('an error while a full file is closed costs no record', async () => {
  failFirstClose();
  const folder = scratch();
  const told: string[] = [];
  const log = await AuditLog.open({
    file: path.join(folder, 'audit.ndjson'),
    sync: 'none',
    maxBytes: 2000,
    onFailed: (error) => told.push((error as Error).message),
    onRestored: () => told.push('restored'),
  });
  for (let i = 0; i < 40; i++) log.append('request', { request_id: `r-${i}` });
  await log.flushed();
  expect(told).toEqual(['EIO']);
  const lost = await log.close();
  expect(told).toEqual(['EIO', 'restored']);
  const files = readdirSync(folder).filter((f) => f.endsWith('.ndjson'));
  expect(files.length).toBeGreaterThan(2);
  const found = await verifyChain(files.map((f) => path.join(folder, f)));
  expect(found).toMatchObject({ whole: true, first: 1, closed: true });
  expect(lost).toBe(0);
});
