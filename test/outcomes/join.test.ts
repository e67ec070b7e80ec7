// Labels and predictions are joined by key, whatever they are written in: against a join in a few lines, and every fault by its row.
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import { brierScore, discrimination } from '../../src/outcomes/discrimination.ts';
import { KeyTable } from '../../src/outcomes/outcome-ledger.ts';
import type { RowSource } from '../../src/outcomes/row-batch.ts';
import { tableRows } from '../../src/outcomes/table-rows.ts';
import { scratch } from '../support/cli.ts';
import fc from '../support/seeded-fast-check.ts';
import { checkTest, times } from '../support/tiers.ts';
import { FORMATS, fileOf, measure, type Row, tableText, textSource, writeTable } from './sources.ts';

const SECRET = 'Jane.Doe-77';

test('a table of keys gives every key one number, and tells those apart that differ in one byte', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'binary', maxLength: 12 }), { maxLength: 60 }), (keys) => {
      const table = new KeyTable();
      const known = new Map<string, number>();
      for (const key of keys.filter((k) => k.isWellFormed())) {
        expect(table.find(key)).toBe(known.get(key) ?? -1);
        if (!known.has(key)) known.set(key, known.size);
        expect(table.enter(key)).toBe(known.get(key));
        expect(table.count).toBe(known.size);
      }
      for (const [key, number] of known) expect(table.find(key)).toBe(number);
    }),
  );
});

test('a table of keys grows', () => {
  const table = new KeyTable();
  const key = (i: number) => `${i}-${'x'.repeat(i % 70)}`;
  const all = Array.from({ length: 100_000 }, (_, i) => i);
  expect(all.filter((i) => table.enter(key(i)) !== i)).toEqual([]);
  expect(all.filter((i) => table.find(key(i)) !== i)).toEqual([]);
  expect(table.find('100000-')).toBe(-1);
  // Four bytes of zeros behind a key are another key.
  expect([table.enter('k'), table.enter('k\0'), table.enter('k\0\0\0')]).toEqual([100_000, 100_001, 100_002]);
});

test('a key is as long as 4096 bytes at most', () => {
  const table = new KeyTable();
  expect(table.enter('é'.repeat(2048))).toBe(0);
  expect(() => table.enter('é'.repeat(2049))).toThrow(/longer than 4096 bytes/);
});

interface Application {
  id: string;
  ok: boolean | null;
  month: string;
}
interface Scored {
  id: string;
  probability: number | null;
  decision: string;
  model: string;
}

const id = fc.constantFrom('a', 'b', 'c', '007', '7', 'x,y', 'say "no"', '=1+1', "o'k", '-', 'é');
const applications = fc.uniqueArray(
  fc.record<Application>({
    id,
    ok: fc.constantFrom(true, false, null),
    month: fc.constantFrom('2026-01', '2026-02'),
  }),
  { selector: (a) => a.id, minLength: 1 },
);
const predictions = fc.array(
  fc.record<Scored>({
    id: fc.oneof(id, fc.constant('')),
    probability: fc.oneof(
      fc.integer({ min: 0, max: 8 }).map((n) => n / 8),
      fc.constant(null),
    ),
    decision: fc.constantFrom('approve', 'decline'),
    model: fc.constantFrom('credit:1', 'credit:2'),
  }),
  { minLength: 1, maxLength: 40 },
);

/** The last prediction of a model for an application counts. */
function joined(labels: readonly Application[], scored: readonly Scored[]) {
  const known = new Map(labels.filter((l) => l.ok !== null).map((l) => [l.id, l]));
  const counts = {
    rows: scored.length,
    matched: 0,
    repeated: 0,
    withdrawn: 0,
    unlabelled: 0,
    withoutProbability: 0,
    withoutKey: 0,
  };
  const last = new Map<string, Scored>();
  for (const s of scored) {
    const place = `${s.model} ${s.id}`;
    if (s.probability === null) counts.withoutProbability++;
    else if (s.id === '') counts.withoutKey++;
    else if (!known.has(s.id)) counts.unlabelled++;
    else {
      counts[last.has(place) ? 'repeated' : 'matched']++;
      last.set(place, s);
    }
  }
  const groups = Map.groupBy(last.values(), (s) => `${s.model} ${known.get(s.id)!.month}`);
  return { counts, known, groups };
}

test('in every format: counts add up, groups are those of a plain join', async () => {
  await fc.assert(
    fc.asyncProperty(applications, predictions, async (labels, scored) => {
      const wanted = joined(labels, scored);
      fc.pre(wanted.counts.matched > 0);
      for (const format of ['csv', 'ndjson', 'json'] as const) {
        const rows = scored as unknown as Row[];
        const report = await measure(
          textSource(tableText(labels as unknown as Row[], format), format),
          [
            textSource(tableText(rows.slice(0, 20), format), format),
            ...(rows.length > 20 ? [textSource(tableText(rows.slice(20), format), format)] : []),
          ],
          {
            month: { column: 'month', kind: 'month' },
            predictions: { model: null, modelColumn: 'model', onDuplicate: 'last' },
          },
        );
        const { sources, ...counts } = report.predictions;
        expect(counts).toEqual(wanted.counts);
        expect(counts.rows).toBe(counts.matched + counts.repeated + counts.withdrawn + counts.unlabelled + counts.withoutProbability + counts.withoutKey); // biome-ignore format: a law
        expect(report.groups.map((g) => `${g.model} ${g.month}`)).toEqual([...wanted.groups.keys()].sort());
        for (const group of report.groups) {
          const of = wanted.groups.get(`${group.model} ${group.month}`)!;
          const scores = (ok: boolean) =>
            Float64Array.from(of.filter((s) => wanted.known.get(s.id)!.ok === ok).map((s) => s.probability!)).sort();
          const all = { positives: scores(true), negatives: scores(false) };
          expect([group.positives, group.negatives]).toEqual([all.positives.length, all.negatives.length]);
          expect({ auc: group.auc, ks: group.ks, brier: group.brier }).toEqual({
            ...discrimination(all),
            brier: brierScore(all),
          });
          for (const { decision, rows: n, bad, badRatio } of group.decisions) {
            const those = of.filter((s) => s.decision === decision);
            expect([n, bad]).toEqual([those.length, those.filter((s) => !wanted.known.get(s.id)!.ok).length]);
            expect(badRatio).toBe(bad / n);
          }
          expect(group.decisions.reduce((n, d) => n + d.rows, 0)).toBe(group.rows);
        }
      }
    }),
    { numRuns: times('joins', { quick: 30, check: 30, campaigns: 3000 }) },
  );
});

test('labels and predictions may come in different formats and compressions', async () => {
  const folder = scratch();
  const labels = Array.from({ length: 60 }, (_, i): Row => ({ id: `A${i}`, ok: i % 3 > 0, month: `2026-0${(i % 2) + 1}` })); // biome-ignore format: one row
  const scored = labels.map((l, i): Row => ({ id: l.id!, row: i + 1, prediction: true, probability: (i % 17) / 17, decision: i % 5 > 1 ? 'approve' : 'decline' })); // biome-ignore format: one row
  const write = (name: string, rows: readonly Row[], format: (typeof FORMATS)[number]) =>
    fileOf(writeTable(path.join(folder, name), rows, format));
  const month = { column: 'month', kind: 'month' } as const;
  const reports = [];
  for (const format of FORMATS) {
    const other = FORMATS[(FORMATS.indexOf(format) + 2) % FORMATS.length]!;
    const packed = format === 'parquet' ? '' : format === 'csv' ? '.gz' : '.zst';
    const from = write(`l.${other}`, labels, other);
    reports.push(await measure(from, [write(`p.${format}${packed}`, scored, format)], { month }));
  }
  expect(reports[0]!.groups.map((g) => g.month)).toEqual(['2026-01', '2026-02']);
  expect(reports[0]!.totals[0]).toMatchObject({ month: null, rows: 60 });
  for (const report of reports) expect(report).toEqual(reports[0]);
});

const LABELS = 'id,ok,month\nA,1,2026-01\nB,0,2026-01\n';
const SCORED = 'id,probability\nA,0.9\nB,0.2\n';
const inMonths = { month: { column: 'month', kind: 'month' } } as const;

type Case = [
  what: string,
  labels: string,
  predictions: string,
  words: RegExp,
  places: string[],
  said?: Parameters<typeof measure>[2],
];

describe('what cannot be used is refused by row and column, without a value', () => {
  test.each<Case>([
    ['an outcome that is neither', `id,ok\n${SECRET},1\nB,${SECRET}\n`, SCORED, /one row cannot be used/, ['2 ok bad_boolean']],
    ['a label without a key', `id,ok\n,1\nB,0\n`, SCORED, /one row cannot be used/, ['1 id missing_value']],
    ['a month that is none', `id,ok,month\nA,1,${SECRET}\nB,0,2026-13\n`, SCORED, /2 rows cannot be used/, ['1 month bad_time', '2 month bad_time'], inMonths],
    ['a label with too many fields', `id,ok\nA,1,${SECRET}\nB,0\n`, SCORED, /one row cannot be used/, ['1 undefined column_count']],
    ['keys of labels that are there twice', `id,ok\n${SECRET},1\n${SECRET},0\n`, SCORED, /text: one row has a duplicate key/, []],
    ['labels without the column', `id,good\n${SECRET},1\n`, SCORED, /has no column ok/, []],
    ['labels with the column twice', `id,ok,ok\n${SECRET},1,1\n`, SCORED, /has the column ok twice/, []],
    ['labels without a known outcome', `id,ok\n${SECRET},\n`, SCORED, /none of 1 rows has an outcome/, []],
    ['labels without a row', 'id,ok\n', SCORED, /none of 0 rows has an outcome/, []],
    ['a probability that is none', LABELS, `id,probability\nA,${SECRET}\n`, /one row cannot be used/, ['1 probability bad_number']],
    ['a probability above 1', LABELS, 'id,probability\nA,1.5\n', /one row cannot be used/, ['1 probability number_out_of_range']],
    ['points in place of probabilities', LABELS, 'id,probability\nA,640\nB,500\n', /2 rows cannot be used/, ['1 probability number_out_of_range', '2 probability number_out_of_range']],
    ['an application that was predicted twice', LABELS, 'id,probability\nA,0.5\nA,0.6\n', /one row is of an application that the same model already predicted/, []],
    ['predictions without a key in common', LABELS, `id,probability\n${SECRET},0.5\n`, /of 1 predictions none has a key of the labels/, []],
    ['predictions without keys', LABELS, 'id,probability\n,0.5\n', /none has a key$/, []],
    ['predictions that were all rejected', LABELS, 'id,probability\nA,\n', /none has a probability/, []],
    ['predictions without a row', LABELS, 'id,probability\n', /of 0 predictions none has a probability/, []],
    ['predictions without the column of probabilities', LABELS, `id,value\nA,${SECRET}\n`, /has no column probability/, []],
    ['a month that nobody has', 'id,ok\nA,1\n', SCORED, /neither the labels nor text have the column month/, [], inMonths],
    ['a model that is not said', LABELS, SCORED, /does not name the model/, [], { predictions: { model: null } }],
    ['a model that is none', LABELS, `id,probability,by\nA,0.5,${SECRET} x\n`, /one row cannot be used/, ['1 by missing_value'], { predictions: { model: null, modelColumn: 'by' } }],
    ['a word for both outcomes', LABELS, SCORED, /1 cannot mean both outcomes/, [], { labels: { negative: ['1'] } }],
  ])('%s', async (_, labels, predictions, words, places, said) => {
    const error = await measure(textSource(labels, 'csv'), [textSource(predictions, 'csv')], said).then(
      () => null,
      (e: unknown) => e as SluiceError,
    );
    expect(error).toBeInstanceOf(SluiceError);
    expect(error!.message).toMatch(words);
    expect(error!.details.map((d) => `${d.row} ${d.column} ${d.code}`)).toEqual(places);
    expect(JSON.stringify([error!.message, error!.details])).not.toMatch(/jane.?doe/i);
  }); // biome-ignore format: a table

  test.each<[what: string, record: string, place: string]>([
    ['text that is no JSON', `{"id":"${SECRET}"`, '2 undefined malformed_json'],
    ['no object', `["${SECRET}"]`, '2 undefined not_an_object'],
    ['a nested key', `{"id":{"a":"${SECRET}"},"ok":1}`, '2 id bad_type'],
    ['half a surrogate pair', '{"id":"\\ud800","ok":1}', '2 id invalid_utf8'],
  ])('JSON: %s', async (_, record, place) => {
    const text = `{"id":"A","ok":1}\n${record}\n`;
    const error = await measure(textSource(text, 'ndjson'), [textSource(SCORED, 'csv')]).catch((e: unknown) => e);
    expect((error as SluiceError).details.map((d) => `${d.row} ${d.column} ${d.code}`)).toEqual([place]);
    expect(JSON.stringify((error as SluiceError).details)).not.toMatch(/jane.?doe/i);
  });
});

test('faults are counted whole and told up to twenty', async () => {
  const text = `id,ok\n${Array.from({ length: 50 }, (_, i) => `${i},maybe\n`).join('')}`;
  const error = (await measure(textSource(text, 'csv'), [textSource(SCORED, 'csv')]).catch((e) => e)) as SluiceError;
  expect(error.message).toMatch(/^text: 50 rows cannot be used$/);
  expect(error.details).toHaveLength(20);
});

test('the last row counts, if that is said', async () => {
  const labels = textSource('id,ok\nA,1\nB,1\nA,0\nC,0\nC,\n', 'csv');
  const scored = textSource('id,probability\nA,0.9\nB,0.2\nA,0.1\nC,0.5\n', 'csv');
  const said = { labels: { onDuplicate: 'last' }, predictions: { onDuplicate: 'last' } } as const;
  const report = await measure(labels, [scored], said);
  expect(report.labels).toEqual({ rows: 5, keys: 3, unknown: 1, matched: 2, repeated: 2 });
  expect(report.predictions).toMatchObject({ matched: 2, repeated: 1, unlabelled: 1 });
  // A was 0.1 at last and went bad, B was 0.2 and did not: the one pair is in order.
  expect(report.groups[0]).toMatchObject({ positives: 1, negatives: 1, auc: 1 });
});

/** Records of a topic as a source: time, key, probability; null: no value. */
const recordSource = (records: readonly [time: number, key: string, probability: number | null][]): RowSource => ({
  name: 'topic',
  async *rows(columns) {
    const texts = columns.map(({ name }) =>
      records.map(([, , p]) => (name === 'probability' && p !== null ? String(p) : null)),
    );
    yield {
      rows: records.length,
      placeOf: (row) => row,
      texts,
      has: columns.map(() => false),
      faults: [],
      records: {
        keys: records.map(([, key]) => key),
        times: records.map(([time]) => time),
        models: records.map(() => 'credit:3'),
        gone: records.map(([, , p]) => p === null),
      },
    };
  },
});
const TOPICS = { predictions: { key: null, model: null, onDuplicate: 'last' } } as const;

test('of several topics the newest prediction counts, whichever is read last', async () => {
  const labels = () => textSource('id,ok\nA,1\nB,0\n', 'csv');
  const [out, approved] = [recordSource([[20, 'A', 0.1], [1, 'B', 0.5]]), recordSource([[10, 'A', 0.9]])]; // biome-ignore format: topics
  const reports = [await measure(labels(), [out, approved], TOPICS), await measure(labels(), [approved, out], TOPICS)];
  for (const report of reports) {
    expect(report.predictions).toMatchObject({ rows: 3, matched: 2, repeated: 1 });
    expect(report.groups[0]).toMatchObject({ month: '1970-01', auc: 0 });
  }
});

test('a record without a value takes the predictions of its key back', async () => {
  const source = recordSource([[1, 'A', 0.9], [2, 'B', 0.2], [3, 'C', 0.3], [4, 'A', null], [5, 'B', null], [6, 'B', 0.4], [7, 'D', null]]); // biome-ignore format: a topic
  const report = await measure(textSource('id,ok\nA,1\nB,0\nC,1\nD,1\n', 'csv'), [source], TOPICS);
  expect(report.predictions).toEqual({ sources: 1, rows: 7, matched: 2, repeated: 0, withdrawn: 2, unlabelled: 0, withoutProbability: 3, withoutKey: 0 }); // biome-ignore format: counts
  expect(report.labels.matched).toBe(2);
  // What is left: B with 0.4, which went bad, above C with 0.3, which did not.
  expect(report.groups[0]).toMatchObject({ rows: 2, auc: 0 });
});

type SomeRecord = [time: number, key: string, probability: number | null];
const someRecords = fc.array(
  fc.tuple(
    fc.integer({ min: 1, max: 6 }),
    fc.constantFrom('A', 'B', 'C'),
    fc.option(fc.integer({ min: 1, max: 9 }).map((n) => n / 10)),
  ),
  { minLength: 1, maxLength: 12 },
);

test('records of several topics count as in the order of their times, whichever is read first', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(someRecords, { minLength: 1, maxLength: 3 }), async (topics) => {
      const left = new Map<string, number>();
      const inOrder = (topics.flat() as SomeRecord[]).map((record, read) => ({ record, read }));
      inOrder.sort((a, b) => a.record[0] - b.record[0] || a.read - b.read);
      for (const { record } of inOrder) {
        const [, key, probability] = record;
        if (probability === null) left.delete(key);
        else left.set(key, probability);
      }
      fc.pre(left.size > 0);
      const report = await measure(textSource('id,ok\nA,1\nB,1\nC,1\n', 'csv'), topics.map((t) => recordSource(t as SomeRecord[])), TOPICS); // biome-ignore format: one line
      const { rows, matched, repeated, withdrawn, withoutProbability } = report.predictions;
      expect(matched).toBe(left.size);
      expect(rows).toBe(matched + repeated + withdrawn + withoutProbability);
      expect(report.groups[0]!.brier).toBeCloseTo([...left.values()].reduce((sum, p) => sum + (1 - p) ** 2, 0) / left.size, 12); // biome-ignore format: one line
    }),
  );
});

/** Labels as records: time, key, outcome; null: a tombstone. */
const labelSource = (records: readonly [time: number, key: string, ok: string | null][]): RowSource => ({
  name: 'labels',
  async *rows(columns) {
    yield {
      rows: records.length,
      placeOf: (row) => row,
      texts: columns.map(({ name }) =>
        records.map(([, key, ok]) => (name === 'ok' ? ok : name === 'id' && ok !== null ? key : null)),
      ),
      has: columns.map(() => true),
      faults: [],
      records: {
        keys: records.map(([, key]) => key),
        times: records.map(([time]) => time),
        models: records.map(() => null),
        gone: records.map(([, , ok]) => ok === null),
      },
    };
  },
});

test('of several labels of a key the newest counts, whichever partition is read first', async () => {
  const scored = () => textSource('id,probability,modelId,modelVersion\nA,0.9,m,1\nB,0.2,m,1\n', 'csv');
  const records: [number, string, string | null][] = [[30, 'A', '1'], [10, 'A', '0'], [5, 'B', '1'], [5, 'B', '0'], [7, 'C', '1']]; // biome-ignore format: one line
  const labels = { key: null, onDuplicate: 'last' } as const;
  const report = await measure(labelSource(records), [scored()], { labels });
  expect(report.labels).toMatchObject({ rows: 5, keys: 3, repeated: 2 });
  expect(report.groups[0]).toMatchObject({ rows: 2, auc: 1 });
  // A tombstone has no key in a column, so it withdraws nothing there.
  const byColumn = { labels: { key: 'id', onDuplicate: 'last' } as const };
  const gone = await measure(labelSource([...records, [40, 'A', null]]), [scored()], byColumn);
  expect(gone.groups[0]).toMatchObject({ rows: 2, auc: 1 });
  const withdrawn = await measure(labelSource([...records, [40, 'A', null], [1, 'B', null]]), [scored()], { labels });
  expect(withdrawn.groups[0]).toMatchObject({ rows: 1, negatives: 1 });
});

test('the months of the labels count, whichever of their rows has the first', async () => {
  const predictions = ['a', 'b'].map((id) => ({ id, probability: 0.5, month: '2026-01' }));
  // The outcome of the first application, and so its month, is not known yet.
  const labels = [{ id: 'z', ok: null, month: null }, ...['a', 'b'].map((id) => ({ id, ok: 1, month: '2026-03' }))];
  const options = { month: { column: 'month', kind: 'month' }, predictions: { model: 'credit:1' } } as const;
  const folder = scratch();
  const monthsOf = async (said: RowSource) => {
    const of = fileOf(writeTable(path.join(folder, 'predictions.csv'), predictions, 'csv'));
    return (await measure(said, [of], options)).groups.map(({ month }) => month).filter((month) => month !== null);
  };
  for (const format of FORMATS)
    expect(await monthsOf(fileOf(writeTable(path.join(folder, `labels.${format}`), labels, format))), format).toEqual(['2026-03']); // biome-ignore format: one line
  const sparse = (first: string) => textSource(`${first}\n${tableText(labels.slice(1), 'ndjson')}`, 'ndjson', 'labels');
  expect(await monthsOf(sparse('{"id":"z"}'))).toEqual(['2026-03']);
  const many = Array.from({ length: 5000 }, (_, i) => `{"id":"${i}","ok":1}`).join('\n');
  for (const undated of ['{"id":"z","ok":1}', many])
    await expect(monthsOf(sparse(undated))).rejects.toMatchObject({ code: 'outcomes_invalid', details: expect.arrayContaining([{ code: 'bad_time', column: 'month', row: 1, message: expect.anything() }]) }); // biome-ignore format: one line
});

test('one outcome only has no AUC, and everything else', async () => {
  const report = await measure(textSource('id,ok\nA,1\nB,1\n', 'csv'), [textSource(SCORED, 'csv')]);
  const [group] = report.groups;
  expect(group).toMatchObject({ rows: 2, negatives: 0, auc: null, gini: null, ks: null });
  expect(group!.brier).toBeCloseTo((0.1 ** 2 + 0.8 ** 2) / 2, 15);
  expect(group!.calibration).toMatchObject({ intercept: null, slope: null });
});

test('keys are compared as they are written', async () => {
  const keys = ['1', '1.0', '01', '1e0', ' 1', '12345678901234567890', '12345678901234567891'];
  const csv = `id,ok\n${keys.map((k, i) => `${k},${i % 2}\n`).join('')}`;
  const tokens = ['1', '1.0', '1e0', '12345678901234567890', '12345678901234567891'];
  const ndjson = [...tokens.map((k, i) => `{"id":${k},"probability":0.${i + 1}}`), '{"id":"01","probability":0.7}', '{"id":" 1","probability":0.8}']; // biome-ignore format: one list
  const report = await measure(textSource(csv, 'csv'), [textSource(`${ndjson.join('\n')}\n`, 'ndjson')]);
  expect(report.predictions).toMatchObject({ rows: 7, matched: 7, repeated: 0 });
});

test('a key that was kept from running as a formula is the key it was', async () => {
  const labels = 'id,ok\n=1+1,1\n-x,0\n-5,1\n';
  const scored = "id,probability\n'=1+1,0.5\n'-x,0.25\n-5,0.75\n";
  const report = await measure(textSource(labels, 'csv'), [textSource(scored, 'csv')]);
  expect(report.predictions).toMatchObject({ rows: 3, matched: 3 });
});

test('the probability of a class is a column of tables and a member of JSON', async () => {
  const said = {
    labels: { positive: ['good'], negative: ['bad', 'fraud'] },
    predictions: { probability: 'probability.good' },
  };
  const labels = () => textSource('id,ok\nA,good\nB,bad\nC,fraud\n', 'csv');
  const csv = 'id,prediction,probability,probability.good,probability.bad\nA,good,0.9,0.9,0.1\nB,bad,0.8,0.2,0.8\nC,bad,0.7,0.3,0.7\n'; // biome-ignore format: one table
  const ndjson = [['A', 0.9], ['B', 0.2], ['C', 0.3]].map(([k, p]) => `{"id":"${k}","prediction":"x","probability":0.5,"probabilities":{"good":${p}}}\n`).join(''); // biome-ignore format: one table
  const one = await measure(labels(), [textSource(csv, 'csv')], said);
  const other = await measure(labels(), [textSource(ndjson, 'ndjson')], said);
  expect(one.groups[0]).toMatchObject({ positives: 1, negatives: 2, auc: 1 });
  expect({ ...other.groups[0], decisions: [] }).toEqual({ ...one.groups[0], decisions: [] });
});

checkTest('memory is that of the labels, not of the predictions', async () => {
  const header = 'id,probability\n';
  const chunk = Buffer.from(Array.from({ length: 1000 }, (_, i) => `nobody-${i},0.5\n`).join(''));
  let most = 0;
  const chunks = async function* () {
    yield Buffer.from(`${header}A,0.5\n`);
    for (let i = 0; i < 1500; i++) {
      if (i % 100 === 0) most = Math.max(most, process.memoryUsage().arrayBuffers);
      yield chunk;
    }
  };
  const open = async () => ({
    chunks: chunks(),
    input: { format: 'delimited' as const, delimiter: ',' },
    close: async () => {},
  });
  const many: RowSource = {
    name: 'many',
    rows: (columns, signal) => tableRows({ name: 'many', open }, columns, signal),
  };
  const before = process.memoryUsage().arrayBuffers;
  const report = await measure(textSource('id,ok\nA,1\n', 'csv'), [many]);
  expect(report.predictions).toMatchObject({ rows: 1_500_001, matched: 1, unlabelled: 1_500_000 });
  expect((most - before) / 2 ** 20).toBeLessThan(40);
});

test('a comparison that is stopped ends with what stopped it', async () => {
  const stop = new AbortController();
  stop.abort(new SluiceError('cancelled', 'stopped'));
  const run = measure(textSource(LABELS, 'csv'), [textSource(SCORED, 'csv')], { signal: stop.signal });
  await expect(run).rejects.toMatchObject({ code: 'cancelled' });
});
