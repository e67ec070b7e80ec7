// Avro values whose lists claim more than their bytes hold are refused before they are decoded.
import avro from 'avsc';
import { expect, test } from 'vitest';
import { boundsOf } from '../../../src/formats/avro/avro-bounds.ts';
import { readAvro } from '../../../src/formats/avro/avro-values.ts';

/** A whole number as Avro writes it. */
function long(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value < 0 ? -2 * value - 1 : 2 * value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

const longs = (...values: number[]): Buffer => Buffer.concat(values.map(long));
const check = (schema: avro.Schema, bytes: Buffer): void => boundsOf(avro.Type.forSchema(schema))!(bytes);

const NULLS = { type: 'array', items: 'null' } as const;
const EMPTY_RECORD: avro.Schema = { type: 'record', name: 'Empty', fields: [] };

test('a list may have 1,000 elements without bytes, whatever it claims', () => {
  check(NULLS, longs(1000, 0));
  expect(() => check(NULLS, longs(1001, 0))).toThrow('too many empty elements');
  expect(() => check(NULLS, longs(1_000_000_000, 0))).toThrow('too many empty elements');
  // A negative count is followed by the bytes of the block.
  expect(() => check(NULLS, longs(-1_000_000_000, 0, 0))).toThrow('too many empty elements');
  expect(() => check({ type: 'array', items: EMPTY_RECORD }, longs(1_000_000_000, 0))).toThrow('too many empty');
});

test('blocks and lists of a value are counted together', () => {
  expect(() => check(NULLS, longs(600, 600, 0))).toThrow('too many empty elements');
  const lists = { type: 'array', items: NULLS } as const;
  check(lists, longs(2, 400, 0, 400, 0, 0));
  expect(() => check(lists, longs(2, 600, 0, 600, 0, 0))).toThrow('too many empty elements');
});

test('a list of more elements than bytes ends with its bytes', () => {
  expect(() => check({ type: 'array', items: 'int' }, longs(1_000_000_000, 1, 2))).toThrow('is incomplete');
  expect(() => check({ type: 'map', values: 'null' }, longs(1_000_000_000, 1))).toThrow('is incomplete');
  // A negative length would move back, to the count that was read before.
  for (const bytes of [longs(1, -1, 0, 0, 0), longs(1, -2)])
    expect(() => check({ type: 'array', items: 'string' }, bytes)).toThrow('is incomplete');
});

test('a number has 64 bits at most', () => {
  const endless = Buffer.concat([long(1), Buffer.alloc(12, 0xff), Buffer.from([0, 0])]);
  expect(() => check({ type: 'array', items: 'long' }, endless)).toThrow('more than 64 bits');
});

test('a type that contains itself is checked', () => {
  const tree: avro.Schema = {
    type: 'record',
    name: 'Tree',
    fields: [{ name: 'children', type: { type: 'array', items: 'Tree' } }],
  };
  check(tree, longs(1, 1, 0, 0, 0));
  expect(() => check(tree, longs(1, 1_000_000_000))).toThrow('is incomplete');
});

test('types without lists need no check', () => {
  expect(boundsOf(avro.Type.forSchema(EMPTY_RECORD))).toBeNull();
});

test('values of a topic are checked before they are decoded', () => {
  const read = readAvro({ type: 'AVRO', text: JSON.stringify(NULLS), references: [] }, null);
  expect(JSON.parse(read(longs(2, 0))(new Set()).toString())).toEqual([null, null]);
  expect(() => read(longs(2000, 0))).toThrow('too many empty elements');
  // In the check only: decoding a list of this length would end the process.
  expect(() => read(longs(1_000_000_000, 0))).toThrow('too many empty elements');
});
