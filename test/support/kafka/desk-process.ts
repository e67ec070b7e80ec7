// A desk that can be killed, with transactions so small that it has many of them: says on standard output when it begins.
import type { LetterSelection } from '../../../src/kafka/desk/selection.ts';
import { settleLetters } from '../../../src/kafka/desk/settle-letters.ts';

export interface DeskOrder {
  brokers: readonly string[];
  deadLetterTopic: string;
  action: 'replayed' | 'dropped';
  selection: LetterSelection;
  transactionLetters: number;
}

const { brokers, ...options } = JSON.parse(process.argv[2]!) as DeskOrder;
console.log('begins');
const report = await settleLetters({ connection: { brokers }, ...options });
console.log(JSON.stringify(report));
