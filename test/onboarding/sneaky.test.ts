// Wrong registrations that nothing but the training table shows, of models that are trained for this: nine of ten are refused or
// asked about, and none of the right ones is refused.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import type { RegisterOptions } from '../../src/onboarding/draft.ts';
import { readEncoding } from '../../src/onboarding/encoding-file.ts';
import { proposePackage } from '../../src/onboarding/register.ts';
import { pythonWith } from '../support/python-environment.ts';
import { campaignTest } from '../support/tiers.ts';

const HERE = path.resolve('test/onboarding/sneaky');
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-sneaky-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Case {
  model: string;
  name: string;
  table: string;
  options: Partial<RegisterOptions>;
  encoding: object | null;
  /** What the words that name the mistake look like; of a right registration there is none. */
  truth?: string;
}

type Verdict = 'refused' | 'asked' | 'silent';

async function verdictOf({ model, table, options, encoding, truth }: Case): Promise<[Verdict, string]> {
  const file = path.join(folder, 'encoding.json');
  writeFileSync(file, JSON.stringify(encoding));
  try {
    const { report } = await proposePackage({
      modelFile: path.join(folder, model, 'model.onnx'),
      trainingFile: path.join(folder, model, table),
      id: model,
      version: 1,
      benchMs: 1,
      ...options,
      ...(encoding ? { encoding: await readEncoding(file) } : {}),
    });
    const said = report.findings.filter((f) => f.level !== 'info').map((f) => `${f.column ?? ''} ${f.text}`);
    const named = truth !== undefined && said.some((words) => new RegExp(truth).test(words));
    return [named ? 'asked' : 'silent', said.join('\n')];
  } catch (error) {
    if (!(error instanceof SluiceError) || error.code !== 'registration_contradicted') throw error;
    return ['refused', error.message];
  }
}

campaignTest('wrong registrations are refused or asked about, right ones are neither', async () => {
  const made = await pythonWith(path.join(HERE, 'requirements.txt'));
  if ('missing' in made) throw new Error(`needs ${made.missing}`);
  await promisify(execFile)(made.python, ['-W', 'ignore', path.join(HERE, 'train.py'), folder], { maxBuffer: 1 << 26 });
  const { good, sneaky } = JSON.parse(readFileSync(path.join(folder, 'cases.json'), 'utf8')) as Record<string, Case[]>;
  expect(good!.length).toBeGreaterThanOrEqual(30);
  expect(sneaky!.length).toBeGreaterThanOrEqual(40);
  const refused: string[] = [];
  for (const c of good!) {
    const [verdict, words] = await verdictOf(c);
    if (verdict === 'refused') refused.push(`${c.model}: ${words}`);
  }
  expect(refused).toEqual([]);
  const counts = { refused: 0, asked: 0, silent: 0 };
  const silent: string[] = [];
  for (const c of sneaky!) {
    const [verdict] = await verdictOf(c);
    counts[verdict]++;
    if (verdict === 'silent') silent.push(`${c.model}: ${c.name}`);
  }
  console.log(counts, silent);
  expect(counts.silent, silent.join(', ')).toBeLessThanOrEqual(0.1 * sneaky!.length);
  expect(counts.refused).toBeGreaterThanOrEqual(0.75 * sneaky!.length);
});
