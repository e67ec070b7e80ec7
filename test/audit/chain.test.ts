// The audit log as a chain: whatever is changed is found, whatever a kill leaves is gone on with, and one process writes.
import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { AuditLog, type AuditLogOptions } from '../../src/audit/audit-log.ts';
import { CHAIN_START, readRecord, sealRecord } from '../../src/audit/audit-record.ts';
import { verifyChain } from '../../src/audit/verify-chain.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import fc from '../support/seeded-fast-check.ts';
import { testNeeding } from '../support/tools.ts';

const openLog = (file: string, more: Partial<AuditLogOptions> = {}) =>
  AuditLog.open({ file, sync: 'none', maxBytes: 2 ** 30, ...more });

/** A log of so many requests, closed in order. */
async function written(records: number, more: Partial<AuditLogOptions> = {}) {
  const folder = scratch();
  const file = path.join(folder, 'audit.ndjson');
  const log = await openLog(file, more);
  for (let i = 0; i < records; i++) log.append('request', { request_id: `r-${i}`, rows: i, cut: false, code: null });
  await log.close();
  const files = readdirSync(folder).filter((f) => f.endsWith('.ndjson')).map((f) => path.join(folder, f)); // biome-ignore format: one line
  return { folder, file, files };
}

const linesIn = (file: string): string[] => readFileSync(file, 'latin1').split('\n').slice(0, -1);
/** Where a changed copy of a log is broken; null: nowhere. */
async function brokenAt(bytes: Buffer | string, head: string | null = null): Promise<number | null> {
  const file = path.join(scratch(), 'copy.ndjson');
  writeFileSync(file, bytes, 'latin1');
  return (await verifyChain([file], head)).broken?.line ?? null;
}

test('a log that nobody touched is whole, through its restarts', async () => {
  const { file } = await written(20);
  const again = await openLog(file);
  again.append('request', { request_id: 'later' });
  await again.close();
  const found = await verifyChain([file]);
  expect(found).toMatchObject({ whole: true, records: 25, first: 1, closed: true, torn: [], lost: 0 });
  const kinds = linesIn(file).map((line) => readRecord(Buffer.from(line))!.kind);
  expect([kinds[0], kinds[21], kinds[22], kinds.at(-1)]).toEqual(['head', 'closed', 'opened', 'closed']);
});

test('any flipped bit is found, in the line that has it', async () => {
  const { file } = await written(5);
  const bytes = readFileSync(file);
  const lineOf = (at: number): number => bytes.subarray(0, at).filter((b) => b === 10).length + 1;
  await fc.assert(
    fc.asyncProperty(fc.nat(bytes.length - 1), fc.nat(7), async (at, bit) => {
      const changed = Buffer.from(bytes);
      changed[at]! ^= 1 << bit;
      expect(await brokenAt(changed)).toBe(lineOf(at));
    }),
    { numRuns: 150 },
  );
});

test('records that are removed, doubled, swapped, put in or taken from elsewhere are found', async () => {
  const { file } = await written(12);
  const other = linesIn((await written(12)).file);
  const lines = linesIn(file);
  await fc.assert(
    fc.asyncProperty(fc.nat(lines.length - 2), fc.nat(lines.length - 1), async (i, j) => {
      const join = (all: string[]): string => all.map((line) => `${line}\n`).join('');
      expect(await brokenAt(join(lines.toSpliced(i, 1)))).toBe(i + 1);
      expect(await brokenAt(join(lines.toSpliced(i + 1, 0, lines[i]!)))).toBe(i + 2);
      if (i !== j) expect(await brokenAt(join(lines.with(i, lines[j]!).with(j, lines[i]!)))).toBe(Math.min(i, j) + 1);
      if (i > 0) expect(await brokenAt(join(lines.with(i, other[i]!)))).toBe(i + 1);
      expect(await brokenAt(join(lines.toSpliced(i + 1, 0, '{"seq":2}')))).toBe(i + 2);
      // An end that is cut off between records is found by a sum that was kept elsewhere.
      const last = readRecord(Buffer.from(lines.at(-1)!, 'latin1'))!.sum;
      expect(await brokenAt(join(lines.slice(0, i + 1)))).toBeNull();
      expect(await brokenAt(join(lines.slice(0, i + 1)), last)).toBe(0);
    }),
    { numRuns: 25 },
  );
  expect(await brokenAt(`${lines.join('\n')}\n`, readRecord(Buffer.from(lines[3]!))!.sum)).toBeNull();
});

test('what a kill leaves of a record stays, marked by the next start, wherever it was cut', async () => {
  const { file } = await written(3);
  const bytes = readFileSync(file);
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: bytes.length }),
      fc.uint8Array({ maxLength: 40 }),
      async (at, garbage) => {
        const copy = path.join(scratch(), 'audit.ndjson');
        writeFileSync(copy, Buffer.concat([bytes.subarray(0, at), garbage]));
        const log = await openLog(copy);
        log.append('request', { request_id: 'after' });
        await log.close();
        const found = await verifyChain([copy]);
        expect([found.broken, found.closed]).toEqual([null, true]);
        // Nothing of it was taken away.
        expect(readFileSync(copy).subarray(0, at)).toEqual(bytes.subarray(0, at));
        const between = (at === 0 || bytes[at - 1] === 10) && garbage.length === 0;
        const whole = between || (bytes[at] === 10 && (garbage.length === 0 || String(garbage) === '10'));
        expect(found.torn.length).toBe(whole ? 0 : 1);
      },
    ),
    { numRuns: 60 },
  );
});

test('a mark that covers something else than it says covers nothing', async () => {
  const { file } = await written(3);
  appendFileSync(file, '{"seq":6,"pre');
  await (await openLog(file)).close();
  const text = readFileSync(file, 'latin1');
  expect(await brokenAt(text)).toBeNull();
  const at = linesIn(file).findIndex((line) => line.startsWith('{"seq":6,"pre') && !line.endsWith('}')) + 1;
  expect(await brokenAt(text.replace('{"seq":6,"pre\n', '{"seq":6,"prf\n'))).toBe(at);
  expect(await brokenAt(text.replace('{"seq":6,"pre\n', ''))).toBeNull();
});

test('full files get the number of their last record, and the chain goes through all of them', async () => {
  const { folder, file, files } = await written(60, { maxBytes: 2000 });
  expect(files.length).toBeGreaterThan(5);
  expect(existsSync(file)).toBe(true);
  const found = await verifyChain(files.toReversed());
  expect(found).toMatchObject({ whole: true, first: 1, closed: true });
  expect(found.records).toBe(60 + files.length + 1);
  const full = readdirSync(folder).filter((f) => /^audit\.\d{12}\.ndjson$/.test(f)).sort(); // biome-ignore format: one line
  for (const name of full) {
    const last = readRecord(Buffer.from(linesIn(path.join(folder, name)).at(-1)!))!;
    expect(Number(/\d{12}/.exec(name)![0])).toBe(last.seq);
  }
  // Without one of them the gap is named; without the first ones it is told where they begin.
  const without = files.filter((f) => !f.endsWith(full[2]!));
  expect((await verifyChain(without)).broken).toMatchObject({
    line: 1,
    why: expect.stringMatching(/was found where record \d+ was expected/),
  });
  expect((await verifyChain(files.filter((f) => !f.endsWith(full[0]!)))).first).toBeGreaterThan(1);
  // A kill between the renaming and the next file.
  const { rmSync } = await import('node:fs');
  const { seq } = readRecord(Buffer.from(linesIn(path.join(folder, full.at(-1)!)).at(-1)!))!;
  rmSync(file);
  await (await openLog(file)).close();
  expect(readRecord(Buffer.from(linesIn(file)[0]!))).toMatchObject({ seq: seq + 1, kind: 'head' });
  expect((await verifyChain(files)).whole).toBe(true);
});

test('two processes do not write one log, and one that ends with no record is not gone on with', async () => {
  const { file } = await written(3);
  const log = await openLog(file);
  onTestFinished(async () => void (await log.close()));
  await expect(openLog(file)).rejects.toMatchObject({ code: 'folder_in_use' });
  const other = path.join(scratch(), 'audit.ndjson');
  writeFileSync(other, 'x'.repeat(2 ** 20 + 1));
  await expect(openLog(other)).rejects.toMatchObject({ code: 'audit_broken' });
}, 60_000);

testNeeding(
  ['unshare as root'],
  'a full disk: nothing is taken apart, and what waited is written when there is room',
  async () => {
    const folder = scratch();
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
    onTestFinished(() => void execFileSync('umount', ['-l', folder]));
    const file = path.join(folder, 'audit.ndjson');
    const told: string[] = [];
    const log = await openLog(file, { onFailed: () => told.push('failed'), onRestored: () => told.push('restored') });
    const filler = path.join(folder, 'filler');
    const fill = () => execFileSync('sh', ['-c', `cat /dev/zero > ${filler} 2>/dev/null || true`]);
    fill();
    let n = 0;
    while (log.available) {
      for (let i = 0; i < 10; i++) log.append('request', { request_id: `r-${n++}` });
      await log.flushed();
    }
    expect(told).toEqual(['failed']);
    for (let i = 0; i < 10; i++) log.append('request', { request_id: `r-${n++}` });
    truncateSync(filler, 0);
    await expect.poll(() => log.available).toBe(true);
    expect(told).toEqual(['failed', 'restored']);
    await log.close();
    const found = await verifyChain([file]);
    expect(found).toMatchObject({ whole: true, records: n + 2, torn: [], lost: 0 });
  },
);

testNeeding(['unshare as root'], 'a server that stops on a full disk reports what it could not write', async () => {
  const folder = scratch();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
  onTestFinished(() => void execFileSync('umount', ['-l', folder]));
  const file = path.join(folder, 'audit.ndjson');
  let lost = 0;
  const log = await openLog(file, { onLost: () => lost++ });
  execFileSync('sh', ['-c', `cat /dev/zero > ${path.join(folder, 'filler')} 2>/dev/null || true`]);
  for (let i = 0; i < 60; i++) log.append('request', { request_id: `r-${i}` });
  const left = await log.close();
  const records = 1 + 60 + 1;
  expect([left, lost]).toEqual([records - linesIn(file).length, left]);
  expect(left).toBeGreaterThan(0);
});

test('what waits for the disk is bounded, and the log says how many records it lost', async () => {
  const file = path.join(scratch(), 'audit.ndjson');
  let lost = 0;
  const log = await openLog(file, { onLost: () => lost++ });
  // In one turn of the event loop nothing is written.
  for (let i = 0; i < 12; i++) log.append('request', { request_id: 'x'.repeat(2 ** 20) });
  expect(log.available).toBe(false);
  expect(lost).toBeGreaterThan(0);
  await log.flushed();
  log.append('request', { request_id: 'y' });
  await log.close();
  expect(await verifyChain([file])).toMatchObject({ whole: true, lost });
});

test('`audit verify` names the first line that is not as it was', async () => {
  const { file, files } = await written(9, { maxBytes: 1500 });
  const run = await sluiceHere(['audit', 'verify', ...files]);
  expect([run.code, run.stderr]).toEqual([0, '']);
  expect(run.stdout).toMatch(/records are intact and in order, 1 to \d+\nthe server stopped normally\nlast hash/);
  const json = JSON.parse((await sluiceHere(['audit', 'verify', '--json', ...files])).stdout);
  expect(json).toMatchObject({ whole: true, broken: null });
  const lines = linesIn(file);
  writeFileSync(file, `${lines.with(1, lines[1]!.replace('"rows":', '"rowz":')).join('\n')}\n`);
  const broken = await sluiceHere(['audit', 'verify', ...files]);
  expect(broken.code).toBe(1);
  expect(broken.stderr).toContain(`${file}:2 a record was changed or cut off`);
  expect((await sluiceHere(['audit', 'verify', 'nowhere.ndjson'])).stderr).toContain('[input_not_found]');
  expect((await sluiceHere(['audit', 'verify', '--head', 'ab', ...files.slice(0, 1)])).code).toBe(1);
});

test('a record is one line, whatever is in it', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer(), fc.boolean())), (fields) => {
      const { line, end } = sealRecord(CHAIN_START, 'request', { fields: JSON.stringify(fields) });
      expect(line.indexOf(10)).toBe(line.length - 1);
      expect(readRecord(line.subarray(0, -1))).toMatchObject({ seq: 1, sum: end.sum, prev: CHAIN_START.sum });
    }),
  );
});

test('a record that comes while the disk is flushed is written without waiting for the next one', async () => {
  const file = path.join(scratch(), 'audit.ndjson');
  let written = 0;
  const log = await openLog(file, { sync: 'batch', onWritten: (records) => (written += records) });
  onTestFinished(async () => void (await log.close()));
  for (let i = 0; i < 20; i++) {
    const before = written;
    log.append('job', { state: 'done' });
    // The batch is written, and its flush has begun.
    while (written === before) await new Promise((resolve) => setImmediate(resolve));
    log.append('job', { state: 'failed' });
    await expect.poll(() => written, { interval: 5 }).toBe(before + 2);
  }
  expect(linesIn(file)).toHaveLength(1 + 2 * 20);
});
