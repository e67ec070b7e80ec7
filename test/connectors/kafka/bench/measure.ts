// Rate, CPU and memory of this process while records flow through it.

export interface Result {
  recordsPerSecond: number;
  cpuSeconds: number;
  peakRssMb: number;
  /** Mean of each quarter of the run: flat when memory does not depend on how much flows through. */
  rssMbByQuarter: number[];
}

/** Resource use of `work`, told when all records are through by `through`. */
export async function measure(
  records: number,
  work: (through: () => void) => Promise<() => Promise<unknown>>,
): Promise<Result> {
  const done = Promise.withResolvers<void>();
  let peak = 0;
  const samples: number[] = [];
  const sampling = setInterval(() => {
    samples.push(process.memoryUsage.rss());
    peak = Math.max(peak, samples.at(-1)!);
  }, 50);
  const cpu = process.cpuUsage();
  const began = performance.now();
  const stop = await work(done.resolve);
  await done.promise;
  const seconds = (performance.now() - began) / 1000;
  const used = process.cpuUsage(cpu);
  clearInterval(sampling);
  await stop();
  return {
    recordsPerSecond: Math.round(records / seconds),
    cpuSeconds: Math.round((used.user + used.system) / 1e4) / 100,
    peakRssMb: Math.round(peak / 2 ** 20),
    rssMbByQuarter: [0, 1, 2, 3].map((q) => {
      const some = samples.slice((samples.length * q) / 4, (samples.length * (q + 1)) / 4);
      return Math.round(some.reduce((sum, rss) => sum + rss, 0) / some.length / 2 ** 20);
    }),
  };
}
