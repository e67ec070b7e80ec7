// Errors that nobody caught, in a process of their own: what is survived, what ends it, and what is said.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { scratch } from '../support/cli.ts';

const SOURCE = path.resolve('src/monitor');

/** Runs `fault` in a process that hears faults, and then asks whether it still works. */
function after(fault: string): { code: number | null; lines: Record<string, unknown>[]; said: string } {
  const file = path.join(scratch(), 'process.ts');
  writeFileSync(
    file,
    `import { EventEmitter } from 'node:events';
import { openLog } from '${SOURCE}/open-log.ts';
import { hearFaults } from '${SOURCE}/process-faults.ts';
const { log } = await openLog({ format: 'json', level: 'info' });
let ended = 0;
hearFaults({ log, count: (kind) => console.log('counted', kind), onLost: () => { console.log('lost', ++ended); process.exitCode = 1; } });
const systemError = (code: string) => Object.assign(new Error(code + ' Jane.Doe-77'), { code, syscall: 'write', errno: -1 });
${fault}
setImmediate(() => setImmediate(() => console.log('alive')));
`,
  );
  const run = spawnSync(process.execPath, [file], { encoding: 'utf8' });
  const lines = run.stderr.trimEnd().split('\n').filter((l) => l !== '').map((l) => JSON.parse(l)); // biome-ignore format: one line
  expect(run.stderr).not.toMatch(/jane/i);
  return { code: run.status, lines, said: run.stdout };
}

test('unhandled rejection is survived', () => {
  const { code, lines, said } = after(`Promise.reject(new TypeError('Jane.Doe-77'));`);
  expect([code, said]).toEqual([0, 'counted unhandled_rejection\nalive\n']);
  expect(lines).toEqual([
    expect.objectContaining({
      level: 'error',
      event: 'process_fault',
      fault: 'unhandled_rejection',
      kind: 'TypeError',
    }),
  ]);
});

test.each(['ENOENT', 'EACCES', 'EIO', 'ENOSPC', 'EMFILE', 'ECONNRESET', 'EPIPE'])(
  'an exception of the system is survived: %s',
  (errno) => {
    const { code, lines, said } = after(
      `setImmediate(() => new EventEmitter().emit('error', systemError('${errno}')));`,
    );
    expect([code, said]).toEqual([0, 'counted uncaught_exception\nalive\n']);
    expect(lines).toEqual([
      expect.objectContaining({ level: 'error', fault: 'uncaught_exception', kind: `Error ${errno}` }),
    ]);
  },
);

test('any other exception ends the process in order, and once', () => {
  const { code, lines, said } = after(
    `for (let i = 0; i < 3; i++) setImmediate(() => { throw new TypeError('Jane.Doe-77'); });`,
  );
  expect([code, said]).toEqual([
    1,
    `counted uncaught_exception\nlost 1\n${'counted uncaught_exception\n'.repeat(2)}alive\n`,
  ]);
  expect(lines.map((l) => [l.level, l.kind])).toEqual(Array(3).fill(['fatal', 'TypeError']));
});

test('warnings of Node are lines of the log', () => {
  const { lines } = after(`process.emitWarning('Jane.Doe-77', { type: 'DeprecationWarning', code: 'DEP0001' });`);
  expect(lines).toEqual([expect.objectContaining({ level: 'warn', event: 'process_warning', kind: 'DEP0001' })]);
});
