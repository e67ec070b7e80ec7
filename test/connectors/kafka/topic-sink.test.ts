// Lines of a file as records of a topic: which key they have, and that a line is read once.
import { expect, test } from 'vitest';
import { KeyColumn, recordOf } from '../../../src/connectors/kafka/topic-sink.ts';

test.each([
  ['"K-7"', 'K-7'],
  ['7', '7'],
  ['1.50', '1.50'],
  ['true', 'true'],
  ['9007199254740993', '9007199254740993'],
  ['-1234567890123456789012345', '-1234567890123456789012345'],
  ['{"branch": 7,"no":1.50}', '{"branch":7,"no":1.50}'],
  ['[1,"a,b"]', '[1,"a,b"]'],
  ['null', null],
])('the key %s', (id, key) => {
  const line = Buffer.from(`{"id":${id},"row":1,"prediction":true}`);
  const read: unknown[] = [];
  const record = recordOf(line, 'id', (json, topic, parsed) => {
    read.push([topic, parsed?.row]);
    return json;
  });
  expect([record.key?.toString() ?? null, record.value]).toEqual([key, line]);
  // The encoder of the value receives the parsed line.
  expect(read).toEqual([[undefined, 1]]);
});

test('a line without a key is not read', () => {
  const line = Buffer.from('no JSON');
  expect(recordOf(line, undefined, (json, _, parsed) => (parsed ? Buffer.alloc(0) : json))).toEqual({
    key: null,
    value: line,
  });
  expect(recordOf(Buffer.from('{"row":1}'), 'id', (json) => json).key).toBeNull();
});

const SCORED = '{"row":1,"prediction":true}';
const REJECTED = '{"row":1,"error":{"code":"bad_number"}}';
const KEYED = '{"id":"K-7","row":1,"prediction":true}';
const EMPTY = '{"id":null,"row":1,"prediction":true}';

test.each<{ what: string; parts: string[][]; refused: boolean }>([
  { what: 'no prediction has the column', parts: [[SCORED, SCORED]], refused: true },
  { what: 'none has it after rows that were rejected', parts: [[], [REJECTED], [REJECTED, SCORED]], refused: true },
  { what: 'some have it', parts: [[SCORED, KEYED], [SCORED]], refused: false },
  { what: 'its value is missing', parts: [[EMPTY], [SCORED]], refused: false },
  { what: 'every row was rejected', parts: [[REJECTED], []], refused: false },
])('a key column is refused before anything is written if the input does not have it: $what', ({ parts, refused }) => {
  const keys = new KeyColumn('id');
  const check = () => parts.flatMap((part) => keys.checked(part.map((line) => Buffer.from(line))).map(String));
  if (refused) expect(check).toThrow(expect.objectContaining({ code: 'kafka_config' }));
  else expect(check()).toEqual(parts.flat());
  const all = parts.flat().map((line) => Buffer.from(line));
  expect(new KeyColumn(undefined).checked(all)).toBe(all);
});
