// A worker that dies, hangs or runs out of memory on certain rows: the real worker with a look at each job first.
import { existsSync, writeFileSync } from 'node:fs';
import { serveJobs } from '../../src/engine/worker.ts';

await serveJobs((job) => {
  const bytes = Buffer.from(job.slab);
  for (let i = 0; i < job.faults.length; i++) {
    if (job.faults[i] !== 0) continue;
    const text = bytes.toString('latin1', job.spans[i * 2], job.spans[i * 2 + 1]);
    if (text.includes('KILL_ALWAYS')) process.exit(7);
    if (text.includes('KILL_INTERPRETED') && !job.uninterpreted) process.exit(7);
    if (text.includes('SPIN_ALWAYS')) for (;;);
    if (text.includes('HANG_ALWAYS')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    if (text.includes('OUT_OF_MEMORY')) {
      const hoard: unknown[] = [];
      for (;;) hoard.push(new Array(1e5).fill({}));
    }
    if (text.includes('KILL_ONCE')) {
      const flag = process.env.SLUICE_TEST_FLAG!;
      if (!existsSync(flag)) {
        writeFileSync(flag, '');
        throw new Error('killed once');
      }
    }
  }
});
