// One member of the group under test: the real processor with an echo, told everything by its first argument.
import { setTimeout as sleep } from 'node:timers/promises';
import { answerTo } from '../../../../src/connectors/kafka/client/records.ts';
import { type ProcessorOptions, TransactionalProcessor } from '../../../../src/connectors/kafka/processor.ts';

export interface WorkerSettings
  extends Pick<
    ProcessorOptions,
    | 'connection'
    | 'topic'
    | 'group'
    | 'instanceId'
    | 'outputTopic'
    | 'deadLetterTopic'
    | 'sessionTimeoutMs'
    | 'rebalanceTimeoutMs'
    | 'metadataMaxAgeMs'
    | 'batchRows'
    | 'transactionRows'
    | 'transactionTimeoutMs'
    | 'fencing'
    | 'delivery'
  > {
  /** Time `process` takes for a batch, ms. */
  workMs: number;
}

const { workMs, ...options } = JSON.parse(process.argv[2]!) as WorkerSettings;
const processor = await TransactionalProcessor.start({
  ...options,
  process: async ({ records }) => {
    await sleep(workMs);
    return { outputs: records.map((r) => answerTo(r, r.value)), rejected: [] };
  },
  observer: {
    onAbort: (event) => process.env.CHAOS_VERBOSE && console.error(process.pid, 'abort', JSON.stringify(event)),
    onAssigned: (event) => process.env.CHAOS_VERBOSE && console.error(process.pid, 'assigned', JSON.stringify(event)),
    onFence: (event) => process.env.CHAOS_VERBOSE && console.error(process.pid, 'fence', JSON.stringify(event)),
    onRestart: (event) => process.env.CHAOS_VERBOSE && console.error(process.pid, 'restart', JSON.stringify(event)),
  },
});
const report = setInterval(() => process.send?.(processor.counters), 200);
process.on('SIGTERM', async () => {
  await processor.stop(5_000);
  clearInterval(report);
  process.send?.(processor.counters);
  // From here on it ends by itself, or something of Kafka is left open.
  process.removeAllListeners('disconnect');
  process.disconnect?.();
});
// A driver that is gone ends its workers.
process.on('disconnect', () => process.exit());
processor.done.catch((error: Error) => {
  console.error(process.pid, error);
  process.exit(1);
});
