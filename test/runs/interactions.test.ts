// What two columns make together, in every format and by every command: the pairs of the kernel, or a refusal before a row is scored.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { tableFromIPC } from '@uwdata/flechette';
import { parse } from 'csv-parse/sync';
import { parquetReadObjects } from 'hyparquet';
import { describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { openModel, scoreStream } from '../../src/index.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { writePackage } from '../../src/onboarding/package-files.ts';
import { proposePackage } from '../../src/onboarding/register.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { kernelPairs, type Pair, pairsOf, pairsOfCells } from '../support/interactions.ts';
import { hiddenIn, jobOf, killedRun, madeBy, OFTEN, scoreJob, unchained } from '../support/interrupted.ts';
import { copyUnlocked } from '../support/registries/packages.ts';
import { CREDIT_COLUMNS, CREDIT_DEFAULT, scoreText } from '../support/score.ts';
import { asObjects } from '../support/service.ts';
import { campaignTest, checkTest, TIER } from '../support/tiers.ts';
import { readRows, registerOptions, zooModels } from '../support/zoo.ts';

const MOST = 4;
const ALL = { effects: true, reasons: true, top: null, below: null };

/** Applications of which some have an amount that is no number. */
function applications(rows: number, seed = 12): { csv: string; objects: Record<string, string>[] } {
  const text = Buffer.concat([...generatePortfolio({ rows, seed, oddness: 'none' })]).toString();
  const [header, ...lines] = text.trimEnd().split('\n') as [string, ...string[]];
  const at = header.split(',').indexOf('amount');
  const broken = lines.map((line, i) => line.split(',').map((cell, c) => (c === at && i % 9 === 4 ? 'many' : cell)).join()); // biome-ignore format: one line
  const csv = `${[header, ...broken].join('\n')}\n`;
  return { csv, objects: asObjects(csv) };
}

const parquetRows = (bytes: Buffer): Promise<Record<string, unknown>[]> =>
  parquetReadObjects({ file: { byteLength: bytes.length, slice: (from: number, to?: number) => Uint8Array.from(bytes.subarray(from, to)).buffer } }); // biome-ignore format: one line

/** Pairs of each row of an output; null: the row has no interpretation. */
async function read(name: string, bytes: Buffer): Promise<(Pair[] | null)[]> {
  const text = bytes.toString();
  if (name.endsWith('.ndjson')) return text.trimEnd().split('\n').map((line) => pairsOf(JSON.parse(line))); // biome-ignore format: one line
  if (name.endsWith('.json')) return JSON.parse(text).predictions.map(pairsOf);
  if (name.endsWith('.parquet')) return (await parquetRows(bytes)).map(pairsOfCells);
  if (name.endsWith('.arrow')) return tableFromIPC(new Uint8Array(bytes)).toArray().map(pairsOfCells);
  const delimiter = name.endsWith('.tsv') ? '\t' : ',';
  return (parse(text, { columns: true, delimiter }) as Record<string, unknown>[]).map(pairsOfCells);
}

campaignTest(
  'every format of a run tells the pairs of the kernel, the strongest first, of the rows that are asked for',
  async () => {
    const cwd = scratch();
    const { csv, objects } = applications(16);
    writeFileSync(path.join(cwd, 'in.csv'), csv);
    const plain = (await scoreText(csv, { output: { format: 'ndjson', delimiter: ',' } })).output.trimEnd().split('\n');
    const probabilities = plain.map((line) => JSON.parse(line).probability as number | undefined);
    const sorted = probabilities.filter((p) => p !== undefined).sort((a, b) => a - b);
    const below = (sorted[7]! + sorted[8]!) / 2;
    const kernel = await kernelPairs(CREDIT_DEFAULT, objects);
    const want = kernel.map((pairs, i) => (pairs === null || probabilities[i]! >= below ? null : pairs.slice(0, MOST)));
    expect(want.filter((pairs) => pairs?.length === MOST)).toHaveLength(8);
    const flags = ['--interpretation', '--interactions', String(MOST), '--interpret-below', String(below)];
    const all = ['out.csv', 'out.json', 'out.parquet', 'out.tsv', 'out.ndjson', 'out.arrow'];
    const names = TIER === 'campaigns' ? all : all.slice(0, 3);
    for (const name of names) {
      const args = ['score', 'in.csv', '-m', 'credit-default', '-o', name, ...flags, '--quiet', '--workers', '1'];
      const { code, stderr } = await sluiceHere(args, { cwd });
      expect([name, code, stderr]).toEqual([name, 3, '']);
      expect(await read(name, readFileSync(path.join(cwd, name)))).toEqual(want);
    }
    const row = want.findIndex((pairs) => pairs !== null) + 1;
    const args = ['explain', 'in.csv', '--row', String(row), '-m', 'credit-default', '--json', '--interactions', '500'];
    const { stdout } = await sluiceHere(args, { cwd });
    expect(pairsOf(JSON.parse(stdout))).toEqual(kernel[row - 1]);
    // A pipeline says the same in its words.
    const score = `{ interpretation: effects, interactions: ${MOST}, interpret_below: ${below}, workers: 1 }`;
    const pipeline = `model: credit-default\nsource: { type: file, path: in.csv }\nsink: { type: file, path: piped.parquet }\nscore: ${score}\n`;
    writeFileSync(path.join(cwd, 'p.yaml'), pipeline);
    const ran = await sluiceHere(['run', 'p.yaml', '--json'], { cwd });
    expect([ran.code, ran.stderr]).toEqual([3, expect.any(String)]);
    expect(readFileSync(path.join(cwd, 'piped.parquet'))).toEqual(readFileSync(path.join(cwd, 'out.parquet')));
  },
);

checkTest(
  'what is not asked for is not there; more than there is gives all that make something, and no room for more',
  async () => {
    const { csv, objects } = applications(6);
    const without = await scoreText(csv, { interpretation: ALL });
    const with_ = await scoreText(csv, { interpretation: { ...ALL, interactions: 500 } });
    const [names, more] = [without, with_].map(({ output }) => output.slice(0, output.indexOf('\n')).split(','));
    const n = (await loadPackage(CREDIT_DEFAULT)).manifest.columns.length;
    const pairs = (n * (n - 1)) / 2;
    expect(more!.slice(0, names!.length)).toEqual(names);
    expect(more!.slice(names!.length)).toEqual(
      Array.from({ length: pairs }, (_, k) => ['first', 'second', 'effect'].map((part) => `interaction.${k + 1}.${part}`)).flat(), // biome-ignore format: one line
    );
    const lines = with_.output.trimEnd().split('\n');
    expect(lines.map((line) => line.split(',').slice(0, names!.length).join())).toEqual(without.output.trimEnd().split('\n')); // biome-ignore format: one line
    const told = (parse(with_.output, { columns: true }) as Record<string, string>[]).map(pairsOfCells);
    const kernel = await kernelPairs(CREDIT_DEFAULT, objects);
    expect(told).toEqual(kernel);
    expect(Math.max(...told.map((list) => list?.length ?? 0))).toBeGreaterThan(20);
    expect(Math.max(...told.map((list) => list?.length ?? 0))).toBeLessThan(pairs);
    const ndjson = (interactions?: number) =>
    scoreText(csv, { output: { format: 'ndjson', delimiter: ',' }, interpretation: { ...ALL, ...(interactions && { interactions }) } }); // biome-ignore format: one line
    const stripped = (await ndjson(3)).output.replaceAll(/,"interactions":\[.*?\]\}(?=\}\n)/g, '}');
    expect(stripped).toBe((await ndjson()).output);
  },
);

checkTest('the same bytes alone, in any batch and with any number of workers', async () => {
  const { csv } = applications(40, 5);
  const spec = { output: { format: 'ndjson', delimiter: ',' }, interpretation: { ...ALL, interactions: 7 } } as const;
  const { output } = await scoreText(csv, spec);
  for (const setup of [{ batchRows: 1 }, { batchRows: 15, blockBytes: 1500 }, { workers: 2, blockBytes: 3000 }]) {
    expect((await scoreText(csv, { ...spec, ...setup })).output).toBe(output);
  }
  const [header, ...lines] = csv.trimEnd().split('\n');
  const alone = await scoreText(`${header}\n${lines[30]}\n`, spec);
  expect(alone.output.trimEnd()).toBe(output.split('\n')[30]!.replace('"row":31,', '"row":1,'));
});

checkTest('of several classes those of the class predicted, and in JSON of each', async () => {
  const { options, csv } = await zoo('lightgbm-multiclass', 6);
  const { folder } = options;
  const json = (await scoreText(csv, { folder, output: { format: 'ndjson', delimiter: ',' }, interpretation: { ...ALL, interactions: 3 } })).output; // biome-ignore format: one line
  const answers = json.trimEnd().split('\n').map((line) => JSON.parse(line)); // biome-ignore format: one line
  const kernel = await kernelPairs(folder, asObjects(csv));
  expect(answers.map(pairsOf)).toEqual(kernel.map((pairs) => pairs?.slice(0, 3) ?? null));
  for (const { interpretation } of answers.filter((a) => a.interpretation)) {
    const own = interpretation.classes.find((c: { class: unknown }) => c.class === interpretation.class);
    expect(own.interactions).toEqual(interpretation.interactions);
    expect(interpretation.classes.every((c: { interactions: unknown[] }) => c.interactions.length > 0)).toBe(true);
  }
  const flat = (await scoreText(csv, { folder, interpretation: { ...ALL, interactions: 3 } })).output;
  expect((parse(flat, { columns: true }) as Record<string, string>[]).map(pairsOfCells)).toEqual(answers.map(pairsOf));
});

/** A model of the zoo as a package, with some of its applications. */
async function zoo(name: string, rows: number) {
  const model = zooModels().find((m) => m.name === name)!;
  const registry = scratch();
  const folder = path.join(registry, name, '1');
  await writePackage(folder, await proposePackage(await registerOptions(model)));
  const columns = (await loadPackage(folder)).manifest.columns.map((c) => c.name);
  const all = readRows('data/clean.csv').slice(0, rows);
  const csv = `${[columns.join(), ...all.map((row) => columns.map((c) => row[c]!).join())].join('\n')}\n`;
  return { options: { folder, registry }, csv };
}

describe('who tells no pairs is refused before a row is scored', () => {
  /** A registry of packages whose methods tell none. `named`: the package says its method. */
  async function registryOf(): Promise<{ registry: string; refs: { ref: string; named: boolean; csv: string }[] }> {
    const { options, csv } = await zoo('skl-mlp', 3);
    const { registry } = options;
    const made = (id: string, from: string, method: string | null) => {
      const folder = path.join(registry, id, '1');
      copyUnlocked(from, folder);
      const yaml = path.join(folder, 'model.yaml');
      const text = readFileSync(yaml, 'utf8').replace(/^id: .*$/m, `id: ${id}`);
      const explain = /^explain:.*\n(?: .*\n)*/m;
      expect(text).toMatch(explain);
      const said = method === null ? '' : `, method: ${method}`;
      writeFileSync(yaml, text.replace(explain, `explain: { background: background.csv${said} }\n`));
      return id;
    };
    const rows = applications(3).csv;
    const columns = (await loadPackage(CREDIT_COLUMNS)).manifest.columns.map((c) => c.name);
    const objects = asObjects(rows);
    const few = `${[columns.join(), ...objects.map((row) => columns.map((c) => row[c] ?? '').join())].join('\n')}\n`;
    return {
      registry,
      refs: [
        { ref: made('linear', CREDIT_COLUMNS, 'linear'), named: true, csv: few },
        { ref: made('unsaid', CREDIT_COLUMNS, null), named: false, csv: few },
        { ref: made('sampled', CREDIT_DEFAULT, 'sampling'), named: true, csv: rows },
        { ref: made('path', CREDIT_DEFAULT, 'tree_path_dependent'), named: true, csv: rows },
        { ref: 'skl-mlp', named: true, csv },
      ],
    };
  }

  checkTest('by score, explain, run and lint', async () => {
    const { registry, refs } = await registryOf();
    for (const [i, { ref, named, csv }] of refs.entries()) {
      const cwd = scratch();
      writeFileSync(path.join(cwd, 'in.csv'), csv);
      const score = '{ interpretation: effects, interactions: 2, workers: 1 }';
      const ends = 'source: { type: file, path: in.csv }\nsink: { type: file, path: out.csv }\n';
      writeFileSync(path.join(cwd, 'p.yaml'), `model: ${ref}\n${ends}score: ${score}\n`);
      const asked = ['-m', ref, '--interactions', '2'];
      const commands = [
        ['score', 'in.csv', ...asked, '-o', 'out.csv', '--interpretation', '--workers', '1', '--quiet'],
        ['explain', 'in.csv', '--row', '1', ...asked],
        ['run', 'p.yaml'],
        ...(named ? [['run', 'p.yaml', '--dry-run']] : []),
        ...(named ? [['lint', 'p.yaml']] : []),
      ];
      // Every command for the first package, one for the others.
      for (const args of i === 0 || TIER === 'campaigns' ? commands : commands.slice(0, 1)) {
        const { code, stdout, stderr } = await sluiceHere([...args, '--registry', registry], { cwd });
        expect([ref, args, code]).toEqual([ref, args, args[0] === 'lint' ? 2 : 1]);
        expect(stdout).toMatch(args.includes('--dry-run') ? /^model .*\n$/ : /^$/);
        expect(stderr).toMatch(/has no interactions|does not support interactions/);
        if (args[0] !== 'lint') expect(stderr).toContain('[interpretation_unavailable]');
        expect(readdirSync(cwd).sort()).toEqual(['in.csv', 'p.yaml']);
      }
    }
  });

  checkTest('what is no number of pairs, or has no effects beside it, is refused by its words', async () => {
    const cwd = scratch();
    writeFileSync(path.join(cwd, 'in.csv'), applications(2).csv);
    const score = (...more: string[]) => sluiceHere(['score', 'in.csv', '-m', 'credit-default', '-o', 'out.csv', ...more], { cwd }); // biome-ignore format: one line
    for (const n of ['0', '501', '1.5', '']) {
      const { code, stderr } = await score('--interpretation', '--interactions', n);
      expect([n, code, stderr]).toEqual([n, 2, expect.stringMatching(/--interactions.*whole number from 1 to 500/)]);
    }
    const alone = await score('--interactions', '3');
    expect([alone.code, alone.stderr]).toEqual([2, expect.stringMatching(/--interactions .*need --interpretation/)]);
    const ends = 'model: credit-default\nsource: { type: file, path: in.csv }\nsink: { type: file, path: out.csv }\n';
    for (const [said, says] of [
      ['interpretation: reasons, interactions: 2', 'score.interactions: needs interpretation: effects'],
      ['interactions: 2', 'score.interactions: needs interpretation: effects'],
      ['interpretation: effects, interactions: 0', 'interactions'],
      ['interpretation: effects, interactions: 501', 'interactions'],
      ['interpretation: effects, interactions: some', 'interactions'],
    ] as const) {
      writeFileSync(path.join(cwd, 'p.yaml'), `${ends}score: { ${said} }\n`);
      const { code, stderr } = await sluiceHere(['lint', 'p.yaml'], { cwd });
      expect([said, code, stderr]).toEqual([said, 2, expect.stringContaining(says)]);
    }
    expect(existsSync(path.join(cwd, 'out.csv'))).toBe(false);
  });

  test('the library tells the same pairs, and refuses alike', async () => {
    const { csv, objects } = applications(5);
    const model = await openModel('credit-default', { workers: 1 });
    const input = async function* () {
      yield Buffer.from(csv);
    };
    try {
      const chunks: Buffer[] = [];
      const asked = { format: 'csv', output: 'ndjson', interpretation: 'effects', interactions: 2 } as const;
      for await (const bytes of scoreStream(model, input(), asked)) chunks.push(Buffer.from(bytes));
      const told = Buffer.concat(chunks).toString().trimEnd().split('\n').map((line) => pairsOf(JSON.parse(line))); // biome-ignore format: one line
      expect(told).toEqual((await kernelPairs(CREDIT_DEFAULT, objects)).map((pairs) => pairs?.slice(0, 2) ?? null));
      for (const wrong of [
        { interpretation: 'reasons', interactions: 2 },
        { ...asked, interactions: 0 },
      ] as const) {
        const taken = scoreStream(model, input(), { format: 'csv', ...wrong })[Symbol.asyncIterator]();
        await expect(taken.next()).rejects.toMatchObject({ code: 'usage' });
      }
    } finally {
      await model.close();
    }
  });
});

campaignTest('an interrupted run with pairs goes on with the same bytes; one with other pairs does not', async () => {
  const flags = ['--interpretation', '--interactions', '3'];
  const job = jobOf('in.csv', 'out.csv', { rows: 500, flags });
  const whole = await scoreJob(job, '--checkpoint-every', '0');
  expect([whole.code, whole.stderr]).toEqual([3, expect.any(String)]);
  const made = madeBy(job, whole);
  for (const name of Object.keys(made.files)) rmSync(path.join(job.folder, name));
  const { rows } = await killedRun(job);
  expect(rows).toBeGreaterThan(0);
  const other = { ...job, flags: job.flags.map((flag) => (flag === '3' ? '4' : flag)) };
  for (const [asked, says] of [
    [other, 'score.interactions changed'],
    [{ ...job, flags: job.flags.slice(0, -2) }, 'score.interactions changed'],
  ] as const) {
    const { code, stderr } = await scoreJob(asked, '--resume', ...OFTEN);
    expect([code, stderr]).toEqual([1, expect.stringMatching(new RegExp(`${says}.*\\[checkpoint_mismatch\\]`, 's'))]);
  }
  const rest = await scoreJob(job, '--resume', ...OFTEN);
  expect([rest.code, JSON.parse(rest.stdout).resumedRows > 0]).toEqual([3, true]);
  expect(unchained(madeBy(job, rest))).toEqual(unchained(made));
  expect(hiddenIn(job)).toEqual([]);
});

campaignTest('shards with pairs are one run with pairs; a part with other pairs is none of it', async () => {
  const cwd = scratch();
  writeFileSync(path.join(cwd, 'in.csv'), applications(30).csv);
  const flags = ['-m', 'credit-default', '--interpretation', '--interactions', '3', '--workers', '1', '--quiet'];
  const run = async (...args: string[]) => {
    const { code, stderr } = await sluiceHere(args, { cwd });
    expect([args[0], [0, 3].includes(code!), stderr]).toEqual([args[0], true, '']);
  };
  await run('score', 'in.csv', '-o', 'one.csv', ...flags);
  const shards = ['shards', 'in.csv', '--shards', '2', '--work', 'work', '-o', 'out.csv', '--keep-parts', ...flags];
  await run(...shards, '--shard', '0');
  await run(...shards, '--shard', '1');
  expect(readFileSync(path.join(cwd, 'out.csv'))).toEqual(readFileSync(path.join(cwd, 'one.csv')));
  await run('plan', 'in.csv', '--shards', '2', '-o', 'plan.json', '--quiet');
  for (const [shard, pairs] of ['3', '2'].entries()) {
    const asked = flags.map((flag) => (flag === '3' ? pairs : flag));
    await run('score', '--plan', 'plan.json', '--shard', String(shard), '-o', 'part-{shard}.csv', ...asked);
  }
  const merged = await sluiceHere(['merge', 'plan.json', '--parts', 'part-*.csv', '-o', 'merged.csv'], { cwd });
  expect([merged.code, merged.stderr]).toEqual([1, expect.stringMatching(/another options/)]);
});
