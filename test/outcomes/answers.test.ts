// Answers of JSON as the sinks write them: the array is found at any cut, the model is that of the answer, and a cut answer is refused.
import { expect, test } from 'vitest';
import { monthOfMs, monthOfText, monthOfTime, monthText, NO_MONTH } from '../../src/outcomes/calendar-month.ts';
import { measure, textSource } from './sources.ts';

const LABELS = 'id,ok\nA,1\nB,0\nC,1\n';
const answer = (rows = 3) =>
  `{"modelId":"credit","modelVersion":"7","predictions":[{"id":"A","row":1,"prediction":true,"probability":0.9,"decision":"approve"},` +
  `{"id":"B","row":2,"prediction":false,"probability":0.2,"decision":"decline"},{"id":"C","row":3,"error":{"code":"bad_number","column":"x","message":"no ]"}}],` +
  `"summary":{"rows":${rows},"scored":2,"rejected":1}}\n`;
const SAID = { predictions: { model: null } };

test('at any cut: the model, the predictions and the rejected row', async () => {
  for (let bytes = 1; bytes < 60; bytes += 7) {
    for (const text of [answer(), answer().replaceAll(',"', ' ,\n "').replaceAll('":', '" : ')]) {
      const report = await measure(textSource(LABELS, 'csv'), [textSource(text, 'json', 'a.json', bytes)], SAID);
      expect(report.predictions).toMatchObject({ rows: 3, matched: 2, withoutProbability: 1 });
      expect(report.groups[0]).toMatchObject({ model: 'credit:7', month: null, rows: 2, auc: 1 });
      expect(report.groups[0]!.decisions).toEqual([
        { decision: 'approve', rows: 1, bad: 0, badRatio: 0 },
        { decision: 'decline', rows: 1, bad: 1, badRatio: 1 },
      ]);
    }
  }
});

test('an answer that is longer than what is held back at its end', async () => {
  const many = Array.from({ length: 4000 }, (_, i) => `{"id":"K${i}","row":${i + 1},"probability":0.5}`);
  const text = `{"modelId":"credit","modelVersion":"7","predictions":[${many.join(',')}],"summary":{"rows":4000,"scored":4000,"rejected":0}}`;
  const labels = `id,ok\n${many.map((_, i) => `K${i},${i % 2}\n`).join('')}`;
  const report = await measure(textSource(labels, 'csv'), [textSource(text, 'json', 'a.json', 1000)], SAID);
  expect(report.groups[0]).toMatchObject({ rows: 4000, auc: 0.5 });
});

test.each([1, 2, 10, 40, 60, 150])('cut off %i bytes before its end, it is refused', async (bytes) => {
  const cut = textSource(answer().slice(0, -1 - bytes), 'json', 'a.json');
  await expect(measure(textSource(LABELS, 'csv'), [cut], SAID)).rejects.toMatchObject({ code: 'truncated_input' });
});

test('with another count than its predictions, it is refused', async () => {
  const wrong = textSource(answer(4), 'json', 'a.json');
  await expect(measure(textSource(LABELS, 'csv'), [wrong], SAID)).rejects.toMatchObject({ code: 'truncated_input' });
});

test.each([
  ['an array', '[{"id":"A","probability":0.5}]'],
  ['one object', '{"id":"A","probability":0.5}'],
  ['one object with predictions of its own', '{"id":"A","probability":0.5,"predictions":[1]}'],
])('%s is no answer and read as it is', async (_, text) => {
  const report = await measure(textSource(LABELS, 'csv'), [textSource(text, 'json')]);
  expect(report.predictions).toMatchObject({ rows: 1, matched: 1 });
});

test.each([
  ['2026-03', '2026-03'],
  ['0000-01', '0000-01'],
  ['2026-13', null],
  ['2026-00', null],
  ['2026-3', null],
  ['2026-03-09', null],
  ['', null],
])('month %s', (text, wanted) => {
  expect(monthText(monthOfText(text))).toBe(wanted);
});

test.each([
  ['2026-03-09', '2026-03'],
  ['2026-03-31T23:59', '2026-03'],
  ['2026-03-31 23:59:59.999999', '2026-03'],
  ['2026-03-31T23:30:00-02:00', '2026-04'],
  ['2026-04-01T01:00:00+0200', '2026-03'],
  ['2026-03-31 23:30:00-02', '2026-04'],
  ['2026-04-01T01:00+02', '2026-03'],
  ['2026-03-31T23:30+2', null],
  ['2026-03-31T24:30', null],
  ['2026-02-30', null],
  ['2026-13-01', null],
  ['31.03.2026', null],
  ['1767225600', null],
])('time %s', (text, wanted) => {
  expect(monthText(monthOfTime(text))).toBe(wanted);
});

test('milliseconds', () => {
  expect(monthText(monthOfMs(0))).toBe('1970-01');
  expect(monthOfMs(Number.NaN)).toBe(NO_MONTH);
  expect(monthOfMs(8.65e15)).toBe(NO_MONTH);
});
