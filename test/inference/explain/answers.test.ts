// Interpretations as answers: they add up on every row, do not depend on neighbours, and reasons hold when they are tried.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { newBatch } from '../../../src/core/batch.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { type InterpretationSpec, Interpretations } from '../../../src/inference/explain/interpretation.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { explainZoo } from '../../support/explain.ts';
import { copyUnlocked } from '../../support/registries/packages.ts';
import { CREDIT_COLUMNS, CREDIT_DEFAULT, scoreText } from '../../support/score.ts';
import { asObjects, startService } from '../../support/service.ts';
import { campaignTest, checkTest, times } from '../../support/tiers.ts';
import { readRows, zooModels } from '../../support/zoo.ts';

const ROWS = times('rows whose effects add up', { quick: 0, check: 200, campaigns: 100_000 });
const ALL: InterpretationSpec = { effects: true, reasons: true, top: null, below: null };
const NDJSON = { output: { format: 'ndjson', delimiter: ',' } } as const;
const portfolio = (rows: number, seed = 31) =>
  Buffer.concat([...generatePortfolio({ rows, seed, oddness: 'light' })]).toString();

interface Answer {
  row: number;
  probability: number;
  interpretation?: {
    space: string;
    base: number;
    effects: { column: string; value: unknown; effect: number }[];
    reasons: { code: string; column: string; text: string }[];
  };
}
const parse = (text: string): Answer[] =>
  text
    .trimEnd()
    .split('\n')
    .map((l) => JSON.parse(l));
const logit = (p: number) => Math.log(p / (1 - p));
const sum = (a: Answer) => a.interpretation!.effects.reduce((n, e) => n + e.effect, a.interpretation!.base);

describe.each([
  ['trees', CREDIT_DEFAULT],
  ['linear', CREDIT_COLUMNS],
])('%s', (_name, folder) => {
  checkTest('base + effects = the prediction, on every row', async () => {
    const { output, result } = await scoreText(portfolio(ROWS), {
      folder,
      ...NDJSON,
      interpretation: ALL,
      workers: 2,
    });
    expect(result.scored).toBe(ROWS);
    let worst = 0;
    for (const a of parse(output)) worst = Math.max(worst, Math.abs(1 / (1 + Math.exp(-sum(a))) - a.probability));
    expect(worst).toBeLessThan(1e-6);
  });

  checkTest('the same bytes alone, in any batch and with any number of workers', async () => {
    // Without line breaks inside of fields: a line is a row.
    const text = Buffer.concat([...generatePortfolio({ rows: 40, seed: 5, oddness: 'none' })]).toString();
    const reference = (await scoreText(text, { folder, ...NDJSON, interpretation: ALL })).output;
    for (const setup of [{ batchRows: 1 }, { batchRows: 7, blockBytes: 1500 }, { workers: 2, blockBytes: 3000 }]) {
      expect((await scoreText(text, { folder, ...NDJSON, interpretation: ALL, ...setup })).output).toBe(reference);
    }
    const lines = text.trimEnd().split('\n');
    for (const i of [1, 40]) {
      const alone = await scoreText(`${lines[0]}\n${lines[i]}\n`, { folder, ...NDJSON, interpretation: ALL });
      const [want] = [reference.split('\n')[i - 1]!];
      expect(alone.output.trimEnd()).toBe(want.replace(`"row":${i},`, '"row":1,'));
    }
  });
});

describe('answers', () => {
  test('effects stand by size with the values as they were given; CSV says the same numbers', async () => {
    const text = portfolio(200, 8);
    const json = parse((await scoreText(text, { ...NDJSON, interpretation: ALL })).output);
    const csv = (await scoreText(text, { interpretation: ALL })).output
      .trimEnd()
      .split('\n')
      .map((l) => l.split(','));
    const [header, ...cells] = csv as [string[], ...string[][]];
    const rows = asObjects(text);
    json.forEach((a, i) => {
      const sizes = a.interpretation!.effects.map((e) => Math.abs(e.effect));
      expect(sizes).toEqual([...sizes].sort((x, y) => y - x));
      for (const e of a.interpretation!.effects) {
        expect(Number(cells[i]![header.indexOf(`effect.${e.column}`)])).toBe(e.effect);
        const given = rows[i]![e.column]!;
        if (!given.includes('"'))
          expect([e.column, e.value === null ? '' : String(e.value)]).toEqual([
            e.column,
            typeof e.value === 'number' ? String(Number(given)) : given,
          ]);
      }
      expect(cells[i]![header.indexOf('reasons')]).toBe(a.interpretation!.reasons.map((r) => r.code).join(';'));
      expect(Number(cells[i]![header.indexOf('base')])).toBe(a.interpretation!.base);
    });
  });

  test('top keeps the largest, below leaves the others without', async () => {
    const text = portfolio(500, 9);
    const spec = { ...ALL, top: 3, below: 0.6 };
    const answers = parse((await scoreText(text, { ...NDJSON, interpretation: spec })).output);
    const explained = answers.filter((a) => a.interpretation);
    expect(explained.length).toBeGreaterThan(10);
    expect(explained.every((a) => a.probability < 0.6 && a.interpretation!.effects.length === 3)).toBe(true);
    expect(answers.filter((a) => !a.interpretation).every((a) => a.probability >= 0.6)).toBe(true);
    const csv = (await scoreText(text, { interpretation: spec })).output.trimEnd().split('\n');
    expect(new Set(csv.map((l) => l.split(',').length)).size).toBe(1);
  });

  test('reasons: at most four, all negative effects that really lower the score, none excluded by the lender', async () => {
    const { manifest } = await loadPackage(CREDIT_DEFAULT);
    const excluded = Object.entries(manifest.reasons!)
      .filter(([, r]) => r === 'none')
      .map(([c]) => c);
    expect(excluded.length).toBeGreaterThan(0);
    const text = portfolio(400, 10);
    const answers = parse((await scoreText(text, { ...NDJSON, interpretation: ALL })).output);
    const given = answers.flatMap((a) => a.interpretation!.reasons);
    expect(given.length).toBeGreaterThan(800);
    for (const a of answers) {
      const { reasons, effects } = a.interpretation!;
      expect(reasons.length).toBeLessThanOrEqual(4);
      const size = reasons.map((r) => effects.find((e) => e.column === r.column)!.effect);
      expect(size.every((s) => s < 0)).toBe(true);
      expect(size).toEqual([...size].sort((x, y) => x - y));
      for (const r of reasons) {
        expect(excluded).not.toContain(r.column);
        expect(manifest.reasons![r.column]).toEqual({ code: r.code, text: r.text });
      }
    }
    // Tried by hand: the typical income in place of the row's raises the score wherever income is a reason.
    const rows = asObjects(text);
    const low = answers.filter((a) => a.interpretation!.reasons.some((r) => r.column === 'income')).slice(0, 40);
    const incomes = readFileSync(path.join(CREDIT_DEFAULT, 'background.csv'), 'utf8')
      .trimEnd()
      .split('\n')
      .slice(1)
      .map((l) => l.split(',')[Object.keys(rows[0]!).indexOf('income')]!)
      .filter((v) => v !== '')
      .map(Number)
      .sort((a, b) => a - b);
    const median = incomes[(incomes.length - 1) >> 1]!;
    const names = Object.keys(rows[0]!);
    const changed = low.map((a) => names.map((n) => (n === 'income' ? String(median) : rows[a.row - 1]![n])).join(','));
    const after = parse((await scoreText(`${names.join(',')}\n${changed.join('\n')}\n`, NDJSON)).output);
    for (const [i, a] of low.entries()) expect(after[i]!.probability).toBeGreaterThan(a.probability);
  });

  test('a row whose effects do not add up keeps its prediction and gets a code instead', async () => {
    const x = await explainZoo(zooModels().find((m) => m.name === 'skl-logistic-matrix')!);
    const encoded = x.encode(readRows('data/clean.csv').slice(0, 4));
    const scores = await x.evaluator.score(encoded.inputs, 4);
    const wrong = {
      ...x.explainer,
      explain: async (...args: Parameters<typeof x.explainer.explain>) => {
        const effects = await x.explainer.explain(...args);
        effects.values[x.manifest.columns.length * 2]! += 0.01;
        return effects;
      },
    };
    const background = x.encode(readRows('data/background.csv'));
    const all = new Interpretations(
      { explainer: wrong, reasons: [], within: () => wrong },
      x.manifest,
      x.evaluator,
      background,
    );
    const batch = { ...newBatch([], 4), rows: 4 };
    const got = await all.of(
      batch,
      encoded.inputs,
      { ...scores, values: scores.values.slice() },
      { ...ALL, reasons: false },
    );
    expect([...got.at]).toEqual([0, 1, -2, 3]);
    expect(got).toMatchObject({ explained: 3, inexact: 1 });
  });

  test('sampling comes within its standard errors of the exact effects', async () => {
    const m = zooModels().find((z) => z.name === 'skl-mlp')!;
    const rows = [...readRows('data/clean.csv').slice(0, 3), ...readRows('data/dirty.csv').slice(0, 2)];
    const exact = await explainZoo(m);
    const sampled = await explainZoo(m, 'sampling');
    const want = await exact.explainer.explain(exact.encode(rows).inputs, [0, 1, 2, 3, 4]);
    const got = await sampled.explainer.explain(sampled.encode(rows).inputs, [0, 1, 2, 3, 4]);
    const columns = exact.manifest.columns.length;
    got.values.forEach((v, k) => {
      const error = got.errors![Math.floor(k / columns)]!;
      expect(Math.abs(v - want.values[k]!)).toBeLessThanOrEqual(5 * error + 1e-6);
    });
    const again = await sampled.explainer.explain(sampled.encode(rows.slice(2, 3)).inputs, [0]);
    expect([...again.values]).toEqual([...got.values.subarray(2 * columns, 3 * columns)]);
  });
});

describe('doors', () => {
  test('HTTP: JSON, NDJSON and CSV, jobs, further paths', async () => {
    const s = await startService(['interpretation_aliases=["/api/v1/scoring/explain"]']);
    const rows = asObjects(portfolio(30, 12).replaceAll(/"[^"]*"/g, 'X'));
    const url = (format: string, prefix = '/api/v1/scoring/predict/interpretation') =>
      `${prefix}.${format}?modelId=credit-default`;
    const body = JSON.stringify(rows);
    const json = await s.call('POST', `${url('json')}&top_effects=2`, { body });
    expect(json.status).toBe(200);
    expect(json.json.predictions[3].interpretation).toMatchObject({ space: 'log_odds', method: 'tree_interventional' });
    expect(json.json.predictions[3].interpretation.effects).toHaveLength(2);
    const other = await s.call('POST', `${url('json', '/api/v1/scoring/explain')}&top_effects=2`, { body });
    expect(other.text).toBe(json.text);
    const lines = await s.call('POST', url('ndjson'), { body: rows.map((r) => JSON.stringify(r)).join('\n') });
    expect(parse(lines.text)).toHaveLength(30);
    const names = Object.keys(rows[0]!);
    const csv = await s.call('POST', url('csv'), {
      body: [names, ...rows.map((r) => Object.values(r))].map((l) => `${l.join('\t')}\n`).join(''),
    });
    expect(csv.text.split('\n')[0]).toMatch(/\terror_message\tbase\teffect\.amount\t.*\teffect\.banned\treasons$/);
    const job = await s.call('POST', `${url('json')}&top_effects=2`, { body, headers: { prefer: 'respond-async' } });
    expect(job.status).toBe(201);
    await expect.poll(async () => (await s.call('GET', String(job.headers.location))).json.state).toBe('done');
    expect((await s.call('GET', `${job.headers.location}/result`)).text).toBe(json.text);
    const plain = await s.call('POST', `/api/v1/scoring/predict.json?modelId=credit-default`, { body });
    expect(plain.json.predictions[3].interpretation).toBeUndefined();
    const metrics = (await s.call('GET', '/metrics')).text;
    expect(metrics).toMatch(/sluice_rows_interpreted_total\{model="credit-default:1",outcome="explained"\} \d+/);
  });

  test('a package without a background says so, before a row is read', async () => {
    const folder = path.join(scratch(), 'models');
    const target = path.join(folder, 'credit-default', '1');
    copyUnlocked(CREDIT_DEFAULT, target);
    const yaml = path.join(target, 'model.yaml');
    writeFileSync(yaml, readFileSync(yaml, 'utf8').replace(/^explain: .*\n/m, ''));
    const s = await startService([], scratch(), { registry: new FolderRegistry([folder]) });
    const reply = await s.call('POST', '/api/v1/scoring/predict/interpretation.json?modelId=credit-default', {
      body: '[]',
    });
    expect([reply.status, reply.json.code]).toEqual([400, 'interpretation_unavailable']);
    writeFileSync(path.join(folder, 'p.csv'), portfolio(3));
    const run = await sluiceHere([
      'score',
      path.join(folder, 'p.csv'),
      '-m',
      'credit-default',
      '--registry',
      folder,
      '--interpretation',
    ]);
    expect([run.code, run.stderr]).toEqual([1, expect.stringContaining('[interpretation_unavailable]')]);
  });

  campaignTest('score --interpretation and explain', async () => {
    const folder = scratch();
    const file = path.join(folder, 'p.csv');
    writeFileSync(file, portfolio(50, 14));
    const scored = await sluiceHere([
      'score',
      file,
      '-m',
      'credit-default',
      '--interpretation',
      '--top',
      '5',
      '--format',
      'ndjson',
      '--quiet',
    ]);
    expect(scored.code).toBe(0);
    const answer = parse(scored.stdout)[16]!;
    expect(answer.interpretation!.effects).toHaveLength(5);
    const page = path.join(folder, 'row.html');
    const drawn = await sluiceHere(['explain', file, '--row', '17', '-m', 'credit-default', '--html', page]);
    expect(drawn.code).toBe(0);
    expect(drawn.stdout).toContain(`probability ${answer.probability.toFixed(4)}`);
    for (const e of answer.interpretation!.effects) expect(drawn.stdout).toContain(`${e.column} = `);
    const html = readFileSync(page, 'utf8');
    expect(html).toContain('<svg');
    const text = html.replaceAll(/<[^>]*>/g, '|');
    for (const words of [answer.probability.toFixed(4), `= probability ${answer.probability.toFixed(4)}`, 'log-odds', file, 'SHA-256 of the package', 'raises the score']) expect(text).toContain(words); // biome-ignore format: one line
    expect(text).toMatch(/explained\|+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/);
    expect(text).toMatch(/SHA-256 of the model\|+[0-9a-f]{64}/);
    expect(text).not.toMatch(/\d\.\d{7}/);
    expect(html).not.toMatch(/(src|href)=|<script/);
    const json = await sluiceHere(['explain', file, '--row', '17', '-m', 'credit-default', '--json']);
    expect(sum(JSON.parse(json.stdout))).toBeCloseTo(logit(answer.probability), 4);
    const none = await sluiceHere(['explain', file, '--row', '51', '-m', 'credit-default']);
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('the file has 50 rows')]);
    const usage = await sluiceHere(['score', file, '-m', 'credit-default', '--top', '5']);
    expect(usage.code).toBe(2);
  });
});
