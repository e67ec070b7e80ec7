// Settles dead letters in many small transactions, in a process that tests kill. Writes to standard output when it begins.
import type { DeadLetterSelection } from '../../../src/connectors/kafka/dlq/dead-letter.ts';
import { settleDeadLetters } from '../../../src/connectors/kafka/dlq/settle-dead-letters.ts';

export interface SettleOrder {
  brokers: readonly string[];
  deadLetterTopic: string;
  action: 'replayed' | 'dropped';
  selection: DeadLetterSelection;
  transactionLetters: number;
}

const { brokers, ...options } = JSON.parse(process.argv[2]!) as SettleOrder;
console.log('begins');
const report = await settleDeadLetters({ connection: { brokers }, ...options });
console.log(JSON.stringify(report));
