// `npm run chaos -- --kills 50 --stops 20 --records 100000 --seed N`: the harness by hand; exits 1 when a record is lost.
import { parseArgs } from 'node:util';
import { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { type ChaosOptions, runChaos } from './driver.ts';

/** The first answer after an only broker is back comes within this time. */
const MAX_RETURN_MS = 5_000;

const NUMBERS = {
  seed: '1',
  records: '100000',
  kills: '0',
  stops: '0',
  visits: '0',
  rolls: '0',
  'broker-kills': '0',
  outages: '0',
  'add-partitions': '0',
  partitions: '4',
  'work-ms': '60',
  'batch-rows': '100',
  'session-ms': '3000',
  'transaction-timeout-ms': '20000',
} as const;

const { values } = parseArgs({
  options: {
    ...Object.fromEntries(
      Object.entries(NUMBERS).map(([name, value]) => [name, { type: 'string' as const, default: value }]),
    ),
    nodes: { type: 'string', default: '1' },
    /** echo: the processor alone; pipeline: `sluice run` with a model. */
    member: { type: 'string', default: 'echo' },
    /** Static members, each with a name of its own. */
    named: { type: 'boolean', default: false },
    delivery: { type: 'string', default: 'exactly_once' },
    /** Shows what the fencing is good for. */
    'without-fencing': { type: 'boolean', default: false },
  },
});
const number = (name: keyof typeof NUMBERS): number => Number((values as Record<string, unknown>)[name]);
const brokerKills = number('broker-kills');
const options: ChaosOptions = {
  seed: number('seed'),
  records: number('records'),
  kills: number('kills'),
  stops: number('stops'),
  visits: number('visits'),
  rolls: number('rolls'),
  brokerKills,
  outages: number('outages'),
  addPartitions: number('add-partitions'),
  partitions: number('partitions'),
  workMs: number('work-ms'),
  batchRows: number('batch-rows'),
  sessionTimeoutMs: number('session-ms'),
  transactionTimeoutMs: number('transaction-timeout-ms'),
  named: values.named === true,
  fencing: !values['without-fencing'],
  member: values.member === 'pipeline' ? 'pipeline' : 'echo',
  delivery: values.delivery === 'at_least_once' ? 'at_least_once' : 'exactly_once',
  log: (line) => console.error(line),
};
await using cluster = await KafkaCluster.start({ nodes: brokerKills > 0 || values.nodes === '3' ? 3 : 1 });
const report = await runChaos(cluster, options);
console.log(JSON.stringify(report));
// At least once: doubles are what is allowed, and whoever writes them writes them later again.
const strict = options.delivery === 'exactly_once' ? report.doubled + report.disordered : 0;
const late = report.slowestReturnMs > MAX_RETURN_MS;
if (report.lost + report.exits + strict > 0 || late || !report.finished) process.exitCode = 1;
