// Runs of files from the command line: names say formats at both ends, several inputs do not take each other down, and a pipe is
// answered while it is still open.

import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gunzipSync, gzipSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { describe, expect, onTestFinished, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { outputName } from '../../src/runs/endpoint-specs.ts';
import { scratch, sluice, sluiceHere, start } from '../support/cli.ts';
import { asNative, asObjects } from '../support/service.ts';
import { checkTest } from '../support/tiers.ts';
import { until } from '../support/until.ts';

const portfolio = (rows: number, seed = 3, faults = 0): Buffer =>
  Buffer.concat([...generatePortfolio({ rows, seed, faults, oddness: 'none' })]);

describe('score: the names of the files say what is read and written', () => {
  const text = portfolio(300, 5, 2);
  const objects = asNative(asObjects(portfolio(300, 5).toString()));
  const inputs: Record<string, Buffer> = {
    'in.csv': text,
    'in.csv.gz': gzipSync(text),
    'in.csv.zst': zstdCompressSync(text),
    'in.tsv': Buffer.from(text.toString().replaceAll(',', '\t')),
    'in.ndjson': Buffer.from(`${objects.map((o) => JSON.stringify(o)).join('\n')}\n`),
    'in.jsonl.gz': gzipSync(`${objects.map((o) => JSON.stringify(o)).join('\n')}\n`),
    'in.json': Buffer.from(JSON.stringify(objects)),
  };
  const probabilitiesOf = async (folder: string, name: string): Promise<(number | null)[]> => {
    const file = path.join(folder, name);
    if (name.endsWith('.parquet')) {
      const rows = await parquetReadObjects({ file: await asyncBufferFromFile(file) });
      return rows.map((r) => (r.probability as number | null) ?? null);
    }
    const bytes = readFileSync(file);
    const plain = (name.endsWith('.gz') ? gunzipSync(bytes) : name.endsWith('.zst') ? zstdDecompressSync(bytes) : bytes).toString(); // biome-ignore format: one line
    if (/\.(ndjson|jsonl)/.test(name))
      return plain.trimEnd().split('\n').map((l) => JSON.parse(l).probability ?? null); // biome-ignore format: one line
    if (name.includes('.json')) return JSON.parse(plain).predictions.map((p: { probability?: number }) => p.probability ?? null); // biome-ignore format: one line
    const [header, ...rows] = plain.trimEnd().split('\n').map((l) => l.split(name.includes('.tsv') ? '\t' : ',')); // biome-ignore format: one line
    const at = header!.indexOf('probability');
    return rows.map((r) => (r[at] === '' ? null : Number(r[at])));
  };

  checkTest('every input, and every output, has the same probabilities', async () => {
    const folder = scratch();
    for (const [name, bytes] of Object.entries(inputs)) writeFileSync(path.join(folder, name), bytes);
    const run = async (input: string, output: string) => {
      const { code, stderr } = await sluiceHere(['score', input, '-m', 'credit-default', '-o', output, '--workers', '1', '--quiet'], { cwd: folder }); // biome-ignore format: one line
      expect([code, stderr], `${input} → ${output}`).toEqual([expect.toBeOneOf([0, 3]), '']);
      return probabilitiesOf(folder, output);
    };
    const want = await run('in.csv', 'out.csv');
    expect(want.filter((p) => p === null)).toHaveLength(2);
    for (const output of ['a.csv.gz', 'b.tsv.zst', 'c.ndjson', 'd.jsonl.zst', 'e.json', 'f.json.gz', 'g.parquet']) {
      expect(await run('in.csv', output), output).toEqual(want);
    }
    for (const input of ['in.csv.gz', 'in.csv.zst', 'in.tsv']) expect(await run(input, 'h.csv'), input).toEqual(want);
    const clean = await run('in.ndjson', 'i.csv');
    expect(clean.filter((p) => p === null)).toHaveLength(0);
    for (const input of ['in.jsonl.gz', 'in.json']) expect(await run(input, 'j.csv'), input).toEqual(clean);
    // What was written as Parquet can be read as Parquet, too.
    expect(
      (await sluiceHere(['score', 'in.csv.gz', '-m', 'credit-default', '-o', 'k.parquet'], { cwd: folder })).code,
    ).toBe(3);
  });

  test.each([
    ['an output of an unknown ending', ['in.csv', '-o', 'out.xlsx'], /out\.xlsx: \.xlsx is not a format.*--format/],
    ['an output with none but a compression', ['in.csv', '-o', 'out.txt.gz'], /\.txt is not a format/],
    ['an input of an unknown ending', ['in.avro', '-o', 'out.csv'], /in\.avro: \.avro is not a format.*--input-format/],
    ['a pattern without an ending', ['*', '-o', '{name}.csv'], /the pattern names no format.*--input-format/],
    ['a Parquet file packed as a whole', ['in.csv', '-o', 'out.parquet.gz'], /compresses its pages itself/],
    ['Parquet through a pipe', ['-', '--input-format', 'parquet', '-o', 'out.csv'], /cannot be read from a pipe/],
    [
      'Parquet with columns nobody names',
      ['in.csv', '-o', 'out.parquet', '--passthrough', '*'],
      /passthrough \* is not supported for a Parquet file/,
    ],
    ['a format nobody knows', ['in.csv', '-o', 'out.csv', '--format', 'xml'], /--format takes csv, tsv, ndjson, json, parquet or arrow/], // biome-ignore format: one line
  ])('%s is refused before anything is written', async (_, args, words) => {
    const folder = scratch();
    writeFileSync(path.join(folder, 'in.csv'), portfolio(5));
    writeFileSync(path.join(folder, 'in.avro'), portfolio(5));
    const { code, stderr } = await sluice(['score', ...args, '-m', 'credit-default'], {
      cwd: folder,
      stdin: portfolio(5),
    });
    expect([code, stderr]).toEqual([2, expect.stringMatching(words)]);
    expect(readdirSync(folder).sort()).toEqual(['in.avro', 'in.csv']);
  });

  test('a format that is said goes before the name', async () => {
    const folder = scratch();
    writeFileSync(path.join(folder, 'in.dat'), portfolio(20));
    const { code } = await sluiceHere(['score', 'in.dat', '--input-format', 'csv', '-m', 'credit-default', '-o', 'out.dat', '--format', 'ndjson', '--compression', 'gzip'], { cwd: folder }); // biome-ignore format: one line
    expect(code).toBe(0);
    const lines = gunzipSync(readFileSync(path.join(folder, 'out.dat'))).toString().trimEnd().split('\n'); // biome-ignore format: one line
    expect(lines.map((l) => JSON.parse(l).row)).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  });
});

checkTest('explain finds a row in every format, and says the same of it', async () => {
  const folder = scratch();
  const objects = asNative(asObjects(portfolio(60).toString()));
  writeFileSync(path.join(folder, 'p.csv'), portfolio(60));
  writeFileSync(path.join(folder, 'p.csv.zst'), zstdCompressSync(portfolio(60)));
  writeFileSync(path.join(folder, 'p.json'), JSON.stringify(objects, null, 2));
  writeFileSync(path.join(folder, 'p.ndjson.gz'), gzipSync(objects.map((o) => JSON.stringify(o)).join('\n')));
  const of = async (file: string, row = '17') => {
    const { code, stdout, stderr } = await sluiceHere(['explain', file, '--row', row, '-m', 'credit-default', '--json'], { cwd: folder }); // biome-ignore format: one line
    return code === 0 ? JSON.parse(stdout) : { code, stderr };
  };
  const want = await of('p.csv');
  expect(want).toMatchObject({ row: 17, interpretation: { effects: expect.any(Array) } });
  for (const file of ['p.csv.zst', 'p.json', 'p.ndjson.gz']) expect(await of(file), file).toEqual(want);
  expect(await of('p.json', '61')).toMatchObject({ code: 2, stderr: expect.stringContaining('has 60 rows') });
});

describe('several inputs', () => {
  const setUp = (list: string): string => {
    const folder = scratch();
    for (const name of ['in', 'out']) mkdirSync(path.join(folder, name));
    writeFileSync(path.join(folder, 'in', 'a.csv'), portfolio(500, 3, 2));
    writeFileSync(path.join(folder, 'in', 'b.csv'), 'not,the,columns\n1,2,3\n');
    writeFileSync(path.join(folder, 'in', 'c.csv'), portfolio(300, 4, 3));
    writeFileSync(
      path.join(folder, 'p.yaml'),
      `model: credit-default\nsource: { type: file, path: "in/*.csv" }\nscore: { workers: 1 }\nsink: { type: file, path: "out/{name}.csv" }\ndead_letter: { type: file, path: "${list}" }\n`,
    );
    return folder;
  };
  const lines = (folder: string, name: string) =>
    readFileSync(path.join(folder, 'out', name), 'utf8')
      .trimEnd()
      .split('\n');

  test('one that fails is named, the others are final with their list, and the totals are told', async () => {
    const folder = setUp('out/rejected.csv');
    const { code, stdout, stderr } = await sluiceHere(['run', 'p.yaml', '--json'], { cwd: folder });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/1 of 3 inputs failed.*\n\s+in\/b\.csv: .*\[header_mismatch\]/)]); // biome-ignore format: one line
    expect(JSON.parse(stdout)).toMatchObject({ rows: 800, scored: 795, rejected: 5 });
    expect(readdirSync(path.join(folder, 'out')).sort()).toEqual([
      'a.csv',
      'a.csv.manifest.json',
      'c.csv',
      'c.csv.manifest.json',
      'rejected.csv',
    ]);
    expect([lines(folder, 'a.csv').length, lines(folder, 'c.csv').length]).toEqual([501, 301]);
    const [header, ...rejected] = lines(folder, 'rejected.csv');
    expect(header).toBe('input,row,line,byte_offset,error_code,error_column,error_message');
    expect(rejected.map((l) => l.split(',')[0])).toEqual([...Array(2).fill('in/a.csv'), ...Array(3).fill('in/c.csv')]);
  });

  test('where one fails, report and record of the run name what was published', async () => {
    const folder = setUp('out/{name}.rejects.csv');
    const asked = ['--json', '--report', 'run.html', '--run-records', 'records', '-o', 'out/{name}.csv'];
    const run = await sluiceHere(['score', 'in/*.csv', '-m', 'credit-default', ...asked], { cwd: folder });
    expect([run.code, run.stderr]).toEqual([1, expect.stringContaining('1 of 3 inputs failed')]);
    expect(JSON.parse(run.stdout)).toMatchObject({ modelVersion: '1', bytesWritten: expect.toSatisfy((n) => n > 0) });
    const [name] = readdirSync(path.join(folder, 'records'));
    const record = JSON.parse(readFileSync(path.join(folder, 'records', name!), 'utf8'));
    const published = ['a', 'c'].map((input) => path.join(folder, `out/${input}.csv`));
    expect(record).toMatchObject({ state: 'failed', rejectLists: published.map((file) => `${file}.rejects.csv`) });
    expect(record.outputs).toEqual(published.map((file) => ({ path: file, manifestSha256: expect.any(String) })));
    const page = readFileSync(path.join(folder, 'run.html'), 'utf8');
    expect(page).not.toContain('nothing was published');
    expect(page).toContain('out/c.csv');
  });

  test('where every input fails, nothing was published', async () => {
    const folder = setUp('out/{name}.rejects.csv');
    for (const name of ['a.csv', 'c.csv']) writeFileSync(path.join(folder, 'in', name), 'not,the,columns\n1,2,3\n');
    const { code, stderr } = await sluiceHere(['run', 'p.yaml'], { cwd: folder });
    expect([code, stderr]).toEqual([1, expect.stringContaining('3 of 3 inputs failed; nothing was published')]);
  });

  test('a link without a target is one failed input', async () => {
    const folder = setUp('out/{name}.rejects.csv');
    symlinkSync('nowhere.csv', path.join(folder, 'in', 'b2.csv'));
    const { code, stderr } = await sluiceHere(['run', 'p.yaml', '--json'], { cwd: folder });
    expect([code, stderr]).toEqual([1, expect.stringMatching(/2 of 4 inputs failed/)]);
    expect(stderr).toMatch(/in\/b2\.csv: .*\[input_not_found\]/);
    expect([lines(folder, 'a.csv').length, lines(folder, 'c.csv').length]).toEqual([501, 301]);
  });

  test('what an input that fails late had rejected is not in the list of all', async () => {
    const folder = setUp('out/rejected.csv');
    const whole = gzipSync(portfolio(20_000, 9, 40));
    writeFileSync(path.join(folder, 'in', 'b2.csv.gz'), whole.subarray(0, whole.length - 5000));
    writeFileSync(
      path.join(folder, 'p.yaml'),
      readFileSync(path.join(folder, 'p.yaml'), 'utf8').replace('in/*.csv', 'in/*'),
    );
    const { code, stderr } = await sluiceHere(['run', 'p.yaml'], { cwd: folder });
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/2 of 4 inputs failed[\s\S]*b2\.csv\.gz: .*\[truncated_input\]/),
    ]);
    expect(readdirSync(path.join(folder, 'out')).sort()).toEqual([
      'a.csv',
      'a.csv.manifest.json',
      'c.csv',
      'c.csv.manifest.json',
      'rejected.csv',
    ]);
    expect(lines(folder, 'rejected.csv')).toHaveLength(1 + 5);
  });

  test('a name with signs of a replacement is inserted as it is', () => {
    expect(outputName('out/{name}/{name}.csv', { name: "in/a$$b$&$'.csv.gz" })).toBe("out/a$$b$&$'/a$$b$&$'.csv");
  });

  test('a list an input, where its path has a name', async () => {
    const folder = setUp('out/{name}.rejected.csv');
    expect((await sluiceHere(['run', 'p.yaml'], { cwd: folder })).code).toBe(1);
    expect(readdirSync(path.join(folder, 'out')).sort()).toEqual([
      'a.csv',
      'a.csv.manifest.json',
      'a.rejected.csv',
      'c.csv',
      'c.csv.manifest.json',
      'c.rejected.csv',
    ]);
    expect([lines(folder, 'a.rejected.csv').length, lines(folder, 'c.rejected.csv').length]).toEqual([3, 4]);
    expect(lines(folder, 'a.rejected.csv')[0]).toBe('input,row,line,byte_offset,error_code,error_column,error_message');
  });

  test('score takes a pattern, too; without {name} it is refused', async () => {
    const folder = setUp('x');
    const args = ['score', 'in/[ac].csv', '-m', 'credit-default', '--workers', '1', '-o'];
    expect((await sluiceHere([...args, 'out/{name}.ndjson.gz'], { cwd: folder })).code).toBe(3);
    expect(readdirSync(path.join(folder, 'out')).filter((f) => f.endsWith('.gz')).sort()).toEqual(['a.ndjson.gz', 'c.ndjson.gz']); // biome-ignore format: one line
    const refused = await sluiceHere([...args, 'all.csv'], { cwd: folder });
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('is written twice')]);
    expect(existsSync(path.join(folder, 'all.csv'))).toBe(false);
  });

  test('an output in the place of an input, or of the list, is refused', async () => {
    const folder = setUp('in/a.csv');
    const before = readFileSync(path.join(folder, 'in', 'a.csv'));
    const { code, stderr } = await sluiceHere(['run', 'p.yaml'], { cwd: folder });
    expect([code, stderr]).toEqual([2, expect.stringContaining('the rejects file is the input: in/a.csv')]);
    expect(readFileSync(path.join(folder, 'in', 'a.csv')).equals(before)).toBe(true);
  });
});

test.each([
  ['run', ['run', 'p.yaml']],
  [
    'score',
    ['score', '-', '-m', 'credit-default', '--delimiter', 'comma', '--format', 'ndjson', '--workers', '1', '--quiet'],
  ],
])('%s answers what came through a pipe while it is still open', async (_, args) => {
  const folder = scratch();
  writeFileSync(
    path.join(folder, 'p.yaml'),
    'model: credit-default\nsource: { type: stdio }\nsink: { type: stdio }\nscore: { workers: 1 }\n',
  );
  const { child, done } = start(args, { cwd: folder, stdin: 'open' });
  let answered = '';
  child.stdout!.on('data', (part: string) => {
    answered += part;
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  const [header, ...rows] = portfolio(3).toString().trimEnd().split('\n');
  child.stdin!.write(`${header}\n${rows[0]}\n${rows[1]}\n`);
  await until(() => answered.split('\n').length >= 3, 'two predictions');
  expect(answered.trimEnd().split('\n').map((l) => JSON.parse(l).row)).toEqual([1, 2]); // biome-ignore format: one line
  child.stdin!.end(`${rows[2]}\n`);
  const { code, stderr } = await done;
  expect(code, stderr).toBe(0);
});
