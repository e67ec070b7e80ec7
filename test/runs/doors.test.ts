// One table for every door: the same thousand rows give the same counts by code, in the summary and in the metrics.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { scratch, sluice } from '../support/cli.ts';
import { PREDICT, type Service, startService } from '../support/service.ts';
import { COUNTS, countsOf, scoringOf, summaryCounts, type Thousand, thousand } from '../support/thousand.ts';

let data: Thousand;
beforeAll(async () => {
  data = await thousand();
});

interface Counted {
  summary: Partial<typeof COUNTS>;
  metrics: string;
}

/** Runs a command in a folder of its own and reads what it says and leaves. */
async function command(
  args: (folder: string) => string[],
  stdin?: Buffer,
  summaryOn: 'stdout' | 'stderr' = 'stdout',
): Promise<Counted> {
  const folder = scratch();
  writeFileSync(path.join(folder, 'in.csv'), data.csv);
  const run = await sluice([...args(folder), '--json', '--metrics-file', 'run.prom'], {
    cwd: folder,
    ...(stdin ? { stdin } : {}),
  });
  expect(run.code, run.stderr).toBe(3);
  const text = summaryOn === 'stdout' ? run.stdout : run.stderr.split('\n').find((l) => l.startsWith('{'))!;
  return { summary: summaryCounts(text), metrics: readFileSync(path.join(folder, 'run.prom'), 'utf8') };
}

function pipeline(folder: string, source: string, sink: string): string[] {
  const file = path.join(folder, 'p.yaml');
  writeFileSync(
    file,
    `model: credit-default\nsource: ${source}\nsink: ${sink}\nscore: { interpretation: effects, interpret_below: ${data.below}, workers: 1 }\n`,
  );
  return ['run', file];
}

async function job(service: Service): Promise<Counted['summary']> {
  const url = `${PREDICT}/interpretation.csv?modelId=credit-default&delimiter=comma&interpret_below=${data.below}`;
  const made = await service.call('POST', url, { body: data.csv, headers: { prefer: 'respond-async' } });
  expect(made.status).toBe(201);
  const state = async () => (await service.call('GET', made.headers.location as string)).json;
  await expect.poll(async () => (await state()).state).not.toMatch(/queued|running/);
  expect((await state()).state).toBe('done');
  return (await state()).summary;
}

const DOORS: [string, () => Promise<Counted>][] = [
  [
    'score',
    () => command(() => ['score', 'in.csv', '-m', 'credit-default', '-o', 'out.csv', '--interpretation', '--interpret-below', String(data.below), '--workers', '1']), // biome-ignore format: one line
  ],
  [
    'file pipeline',
    () => command((f) => pipeline(f, '{ type: file, path: in.csv }', '{ type: file, path: out.parquet }')),
  ],
  [
    'standard input and output',
    () =>
      command((f) => pipeline(f, '{ type: stdio }', '{ type: stdio, format: csv }'), Buffer.from(data.csv), 'stderr'),
  ],
  [
    'HTTP',
    async () => {
      const service = await startService();
      const url = `${PREDICT}/interpretation.json?modelId=credit-default&interpret_below=${data.below}`;
      const answer = await service.call('POST', url, { body: JSON.stringify(data.objects) });
      expect(answer.status).toBe(200);
      return { summary: answer.json.summary, metrics: (await service.call('GET', '/metrics')).text };
    },
  ],
  [
    'job',
    async () => {
      const service = await startService();
      return { summary: await job(service), metrics: (await service.call('GET', '/metrics')).text };
    },
  ],
];

describe('the same counts through', () => {
  test.each(DOORS)('%s', async (_, door) => {
    const { summary, metrics } = await door();
    expect(COUNTS).toMatchObject(summary);
    expect(countsOf(metrics)).toEqual(COUNTS);
    expect(scoringOf(metrics).blocks).toBeGreaterThan(0);
  });
});
