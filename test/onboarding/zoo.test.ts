// Every model of the zoo: registered as its trainer would, then scored through file, CSV and JSON, against its own library.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import type { Proposal } from '../../src/onboarding/draft.ts';
import { readExpected } from '../../src/onboarding/expected.ts';
import { addProposal } from '../../src/onboarding/package-files.ts';
import { proposePackage } from '../../src/onboarding/register.ts';
import { scoreText } from '../support/score.ts';
import { type Service, startService } from '../support/service.ts';
import { describeEach } from '../support/tiers.ts';
import { type Row, readRows, registerOptions, toNative, toTsv, ZOO, zooModels } from '../support/zoo.ts';

const models = zooModels();
const served = models.filter((m) => m.expect === 'served');
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-zoo-'));
const registry = new FolderRegistry([path.join(folder, 'models')]);
const data: Record<string, Row[]> = { clean: readRows('data/clean.csv'), dirty: readRows('data/dirty.csv') };
let service: Service;

beforeAll(async () => {
  service = await startService(['models_max=2'], folder, { registry, keep: true });
});
afterAll(async () => {
  await service.running.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Prediction {
  row: number;
  prediction?: unknown;
  probability?: number;
  probabilities?: Record<string, number>;
  value?: number;
  error?: { code: string };
}

/** Largest difference from the library's own predictions; rows it refuses must be refused, and those without any value are. */
function worst(expected: Row[], got: Prediction[], isEmpty: (row: number) => boolean): number {
  expect(got).toHaveLength(expected.length);
  let largest = 0;
  expected.forEach((want, i) => {
    const p = got[i]!;
    if (isEmpty(i)) {
      expect([i + 1, p.error?.code]).toEqual([i + 1, 'empty_row']);
      return;
    }
    const refused = Object.values(want).includes('refused');
    expect([i + 1, p.error?.code ?? 'scored']).toEqual([
      i + 1,
      refused ? expect.not.stringMatching('scored') : 'scored',
    ]);
    if (refused) return;
    for (const [column, text] of Object.entries(want)) {
      if (column === 'prediction') continue;
      const number =
        column === 'probability'
          ? p.probability
          : column === 'value'
            ? p.value
            : p.probabilities?.[column.slice('probability.'.length)];
      largest = Math.max(
        largest,
        Math.abs(number! - Number(text)) / (column === 'value' ? Math.max(1, Math.abs(Number(text))) : 1),
      );
    }
  });
  return Number.isNaN(largest) ? Infinity : largest;
}

test('the zoo is whole', () => {
  expect(served.length).toBeGreaterThanOrEqual(30);
  expect(data.clean).toHaveLength(200);
  expect(data.dirty).toHaveLength(200);
});

describeEach(served, { quick: 24, check: 16 }, (name, m) => {
  let proposal: Proposal;
  beforeAll(async () => {
    proposal = await proposePackage({
      ...(await registerOptions(m)),
      expected: await readExpected(path.join(ZOO, 'models', name, 'expected-clean.csv')),
      expectedRows: await readExpected(path.join(ZOO, 'data/clean.csv')),
    });
    await addProposal(registry, proposal);
  });

  test('registers with its self-test passed', () => {
    expect(proposal.report.selfTest).toMatchObject({ passed: true, beyond: 0 });
    expect(proposal.report.task).toBe(m.task);
    expect(Object.values(proposal.report.batchInvariance.different).every((d) => d === 0)).toBe(true);
  });

  test.each(['clean', 'dirty'])('%s rows: file, CSV and JSON agree with the library', async (kind) => {
    const expected = readRows(`models/${name}/expected-${kind}.csv`);
    const rows = data[kind]!;
    const { columns } = m.register;
    const limit = Math.min(m.tolerance, 1e-6);
    const isEmpty = (i: number): boolean => columns.every((c) => rows[i]![c] === '');
    const tsv = toTsv(columns, rows);
    const file = await scoreText(tsv, {
      folder: path.join(folder, 'models', name, '1'),
      delimiter: '\t',
      output: { format: 'ndjson', delimiter: ',' },
    });
    const fromFile = file.output
      .trim()
      .split('\n')
      .map((l) => JSON.parse(l) as Prediction);
    expect(worst(expected, fromFile, isEmpty)).toBeLessThanOrEqual(limit);

    const native = await service.call('POST', `/api/v1/scoring/predict.json?modelId=${name}`, {
      body: JSON.stringify(rows.map((r) => toNative(columns, r))),
    });
    expect(native.status).toBe(200);
    expect(worst(expected, native.json.predictions, isEmpty)).toBeLessThanOrEqual(limit);
    const texts = await service.call('POST', `/api/v1/scoring/predict.json?modelId=${name}`, {
      body: JSON.stringify(rows.map((r) => Object.fromEntries(columns.map((c) => [c, r[c]])))),
    });
    expect(texts.text).toBe(native.text);

    const csv = await service.call('POST', `/api/v1/scoring/predict.csv?modelId=${name}`, { body: tsv });
    expect(csv.status).toBe(200);
    const lines = csv.text
      .trimEnd()
      .split('\n')
      .map((l) => l.split('\t'));
    const [header, ...cells] = lines as [string[], ...string[][]];
    const key = m.task === 'binary' ? 'probability' : m.task === 'multiclass' ? 'prediction' : 'value';
    const fromCsv = cells.map((c) => c[header.indexOf(key)]);
    expect(fromCsv).toEqual(
      fromFile.map((p) =>
        String((m.task === 'binary' ? p.probability : m.task === 'multiclass' ? p.prediction : p.value) ?? ''),
      ),
    );
  });
});

describe('what cannot be served right is refused with the reason', () => {
  test.each(models.filter((m) => m.expect !== 'served').map((m) => [m.name, m] as const))('%s', async (name, m) => {
    const failure = await proposePackage({
      ...(await registerOptions(m)),
      tolerance: 1e-6,
      expected: await readExpected(path.join(ZOO, 'models', name, 'expected-clean.csv')),
      expectedRows: await readExpected(path.join(ZOO, 'data/clean.csv')),
    }).catch((e: unknown) => e);
    const reasons: Record<string, RegExp> = {
      'skl-logistic-raw-scores': /raw scores.*raw_scores': False/s,
      'skl-logistic-double-imputer': /FloatTensorType/,
      'skl-calibrated-isotonic': /isotonic.*sigmoid/s,
      'lightgbm-float64-trap': /float64.*float32/s,
    };
    expect(reasons[name], `${name} needs a reason here`).toBeDefined();
    expect((failure as Error).message).toMatch(reasons[name]!);
  });
});
