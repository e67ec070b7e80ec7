// A process within limits that does what it is told: burns CPU time, sleeps, or takes memory. With an argument it is the parent
// of such a process, says its number and waits.
import { startLimited } from '../../src/inference/sandbox/limited-process.ts';

export type Order = { burn: number } | { sleep: number } | { take: number };

if (process.argv[2] === 'parent') {
  const child = startLimited(new URL(import.meta.url), { heapMb: 64, memoryBytes: 2 ** 29, cpuSeconds: null });
  child.send({ burn: Infinity } satisfies Order);
  process.stdout.write(`${child.pid}\n`);
} else {
  process.on('message', (order: Order) => {
    const began = performance.now();
    if ('burn' in order) while (performance.now() - began < order.burn);
    else if ('take' in order) {
      try {
        new Uint8Array(order.take).fill(1);
      } catch {
        process.send!('no memory');
        return;
      }
    }
    setTimeout(() => process.send!('done'), 'sleep' in order ? order.sleep : 0);
  });
}
