// Records of aborted transactions, as they lie in a fetch.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
import { withoutAborted } from '../../../../src/connectors/kafka/kafkajs/repairs.ts';
import '../../../../src/connectors/kafka/kafkajs/repairs.ts';

const message = (
  offset: number,
  producerId: string | null,
  more: { key?: Buffer; isControlRecord?: boolean } = {},
) => ({
  offset: String(offset),
  key: Buffer.from('k'),
  isControlRecord: false,
  batchContext: { producerId: producerId ?? '-1', inTransaction: producerId !== null },
  ...more,
});
const ABORT = Buffer.from([0, 0, 0, 0]);
const aborted = (offset: number, producerId: string) =>
  message(offset, producerId, { key: ABORT, isControlRecord: true });
const offsets = (messages: { offset: string; isControlRecord: boolean }[]) =>
  messages.filter((m) => !m.isControlRecord).map((m) => Number(m.offset));

test('several transactions that began before the fetch', () => {
  const abortedTransactions = [
    { producerId: '1', firstOffset: '5' },
    { producerId: '2', firstOffset: '6' },
    { producerId: '3', firstOffset: '3' },
  ];
  const messages = [message(10, '2'), message(11, '3'), message(12, '1'), message(13, '4'), message(14, null)];
  expect(offsets(withoutAborted({ messages, abortedTransactions }))).toEqual([13, 14]);
  expect(offsets(withoutAborted({ messages, abortedTransactions: null }))).toEqual([10, 11, 12, 13, 14]);
});

test('what comes after the end of one is of another', () => {
  const abortedTransactions = [
    { producerId: '1', firstOffset: '5' },
    { producerId: '1', firstOffset: '30' },
  ];
  const messages = [message(10, '1'), aborted(20, '1'), message(21, '1'), message(30, '1'), aborted(31, '1')];
  expect(offsets(withoutAborted({ messages, abortedTransactions }))).toEqual([21]);
});

test('a record whose key is that of the end of a transaction ends none', () => {
  const abortedTransactions = [{ producerId: '1', firstOffset: '5' }];
  const messages = [message(5, '1', { key: ABORT }), message(6, '1'), aborted(7, '1')];
  expect(offsets(withoutAborted({ messages, abortedTransactions }))).toEqual([]);
});

test('kafkajs is repaired with it, and its own gives such records out', () => {
  const require = createRequire(import.meta.url);
  const name = 'kafkajs/src/consumer/filterAbortedMessages';
  expect(require(name)).toBe(withoutAborted);
  const original = { exports: null as unknown as typeof withoutAborted };
  const Long = require('kafkajs/src/utils/long');
  new Function('module', 'require', readFileSync(require.resolve(name), 'utf8'))(original, () => Long);
  const abortedTransactions = [
    { producerId: '1', firstOffset: '5' },
    { producerId: '2', firstOffset: '6' },
  ];
  const messages = [message(10, '2'), message(11, '1')];
  expect(offsets(original.exports({ messages, abortedTransactions }))).toEqual([10]);
  expect(offsets(withoutAborted({ messages, abortedTransactions }))).toEqual([]);
});
