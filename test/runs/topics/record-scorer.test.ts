// Each record of a micro-batch gets its own answer, whatever white space and values stand in the others.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ModelHost } from '../../../src/engine/model-host.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { RecordScorer } from '../../../src/runs/topics/record-scorer.ts';
import { someApplications } from '../../support/kafka/applications.ts';

let host: ModelHost;
beforeAll(() => {
  host = new ModelHost({ registry: new FolderRegistry(['src/bundled']), workers: 1, max: 1 });
});
afterAll(() => host.close());

const answersTo = async (values: (string | null)[], passthrough: readonly string[] | '*') => {
  const scorer = new RecordScorer({
    host,
    model: 'credit-default',
    interpretation: null,
    passthrough,
    maxRecordBytes: 1 << 16,
  });
  try {
    const { answers } = await scorer.score(values.map((v) => (v === null ? null : Buffer.from(v))));
    return answers.map(({ value, error }) => ({ value: JSON.parse(value.toString()), code: error?.code ?? null }));
  } finally {
    scorer.close();
  }
};

test.each([['*' as const], [['id']]])(
  'values that span lines are passed through on one line: passthrough %s',
  async (passthrough) => {
    const applications = someApplications().slice(0, 4);
    const plain = await answersTo(
      applications.map((a, i) => JSON.stringify({ ...a, id: i })),
      passthrough,
    );
    const pretty = await answersTo(
      applications.map((a, i) => JSON.stringify({ ...a, id: { list: [i, 'a\nb'] } }, null, 2).replaceAll('\n', '\r\n')),
      passthrough,
    );
    expect(pretty).toEqual(
      plain.map(({ value, code }, i) => ({ code, value: { ...value, id: { list: [i, 'a\nb'] } } })),
    );
  },
);

test('a rejected record keeps model, version and the passthrough columns that could be read', async () => {
  const [good] = someApplications();
  const model = { modelId: 'credit-default', modelVersion: '1' };
  const values = [
    JSON.stringify({ ...good, id: 'A', amount: 'many' }),
    null,
    '{"id":"B",',
    '[]',
    JSON.stringify({ ...good, id: 'C' }),
  ];
  const answers = await answersTo(values, ['id']);
  expect(answers).toMatchObject([
    { code: 'bad_number', value: { ...model, id: 'A', error: { code: 'bad_number', column: 'amount' } } },
    { code: expect.any(String), value: { ...model, error: { message: expect.any(String) } } },
    { code: 'malformed_json', value: { ...model, error: { code: 'malformed_json' } } },
    { code: 'not_an_object', value: { ...model, error: { code: 'not_an_object' } } },
    { code: null, value: { ...model, id: 'C', prediction: expect.any(Boolean) } },
  ]);
  expect(answers.slice(1, 4).map(({ value }) => Object.keys(value))).toEqual(
    Array(3).fill(['modelId', 'modelVersion', 'error']),
  );
});

test('a passthrough column with the name of a member of the answer is refused', async () => {
  await expect(answersTo(['{}'], ['probability'])).rejects.toMatchObject({ code: 'header_mismatch' });
});
