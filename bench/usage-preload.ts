// Without Python: what this process took, written when it ends. Children do not count.
import { writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const file = process.env.SLUICE_BENCH_USAGE;
if (isMainThread && file !== undefined) {
  // Inherited by children, whose use would be written over ours.
  delete process.env.SLUICE_BENCH_USAGE;
  process.once('exit', () => {
    const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
    const usage = {
      seconds: performance.now() / 1000,
      userSeconds: userCPUTime / 1e6,
      systemSeconds: systemCPUTime / 1e6,
      peakBytes: maxRSS * 1024,
    };
    writeFileSync(file, JSON.stringify(usage));
  });
}
