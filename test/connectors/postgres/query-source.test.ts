// A query as the input: one snapshot of it, in the words of the model, NULL told from an empty text, and the same answers as from a file.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { openQuery, type QueryOptions, type QuerySettings } from '../../../src/connectors/postgres/query-source.ts';
import { SluiceError } from '../../../src/core/errors.ts';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { type Run, scratch, sluice, sluiceHere } from '../../support/cli.ts';
import { hiddenIn, type Job, killedRun, madeBy, unchained } from '../../support/interrupted.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../../support/postgres/server.ts';
import { checkTest } from '../../support/tiers.ts';

const column = (name: string, kind: string, more = {}) => ({ name, kind, ...more });
const MANIFEST = {
  outcome: 'ok',
  inputs: [],
  columns: [
    column('amount', 'number'),
    column('flag', 'boolean', { true_values: ['Y'], false_values: ['N'], missing: { values: ['?'] } }),
    column('active', 'boolean'),
    column('dummy', 'number'),
    column('branch', 'category', { missing: { values: ['NA'] } }),
    column('born', 'text'),
  ],
} as unknown as Manifest;

requirePostgres('a query as the source', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
    await server.query(`CREATE TABLE loans (id bigint, note text, paid numeric, ok boolean, amount numeric(12,2), flag boolean,
      active boolean, dummy boolean, branch text, born text, unused text)`);
    await server.query(`INSERT INTO loans VALUES
      (9007199254740993, '', 1.10, true, 100.50, true, true, true, 'B"1,', '1970-02-03', 'x'),
      (2, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, NULL, 'x'),
      (3, E'a "b"\\n\\\\', 'NaN', NULL, -0.1, false, false, false, '', '2000-12-31', 'x')`);
  });
  afterAll(() => server.stop());

  const settings = (more: Partial<QuerySettings>): QuerySettings => ({
    url: server.url,
    connect_timeout_ms: 5000,
    statement_timeout_ms: 60_000,
    ...more,
  });
  const read = async (more: Partial<QuerySettings>, options: Partial<QueryOptions> = {}): Promise<string> => {
    const source = await openQuery(settings(more), { manifest: MANIFEST, passthrough: [], ...options });
    let text = '';
    try {
      for await (const chunk of source.chunks) text += Buffer.from(chunk).toString();
    } finally {
      await source.close();
    }
    return text;
  };
  const failure = async (work: Promise<unknown>): Promise<SluiceError> => {
    const error = await work.then(
      () => null,
      (e: unknown) => e,
    );
    expect(error).toBeInstanceOf(SluiceError);
    return error as SluiceError;
  };

  test('a text is the same in every type of texts, whatever it is padded with', async () => {
    await server.query(`CREATE DOMAIN padded AS char(12); CREATE TYPE word AS ENUM ('B 1', 'Y', '7.5')`);
    const types = ['text', 'varchar', 'varchar(12)', 'char(12)', 'padded', 'name', 'word'];
    for (const [i, type] of types.entries()) {
      const columns = ['flag', 'branch', 'born', 'amount'].map((name) => `${name} ${type}`);
      await server.query(`CREATE TABLE texts${i} (${columns.join(', ')}, active boolean, dummy boolean)`);
      await server.query(`INSERT INTO texts${i} VALUES ('Y', 'B 1', 'B 1', '7.5'), (NULL, NULL, NULL, NULL)`);
      const text = await read({ query: `SELECT flag, branch, born, amount FROM texts${i}` });
      expect(text, type).toBe('flag,branch,born,amount\nY,B 1,B 1,7.5\n?,NA,,\n');
    }
  });

  test('a table: the columns of the model in its words, and tokens of JSON of what is passed through', async () => {
    expect(await read({ table: 'loans' })).toBe(
      'amount,flag,active,dummy,branch,born\n100.50,Y,true,1,"B""1,",1970-02-03\n,?,,,NA,\n-0.10,N,false,0,"",2000-12-31\n',
    );
    const passed = await read({ table: 'public.loans', key: ['id'] }, { passthrough: ['id', 'note', 'paid'] });
    expect(passed.split('\n').map((line) => line.split(',').slice(0, 3).join(','))).toEqual([
      'id,note,paid',
      '2,null,null',
      '3,"""a \\""b\\""\\n\\\\""","""NaN"""',
      '9007199254740993,"""""",1.10',
      '',
    ]);
  });

  test.each([
    ["'0230'::int AS branch", 'column branch contains numbers, but the model takes text'],
    ['1.50::numeric AS branch', 'column branch contains decimals, but the model takes text'],
    ['true AS branch', 'column branch contains booleans, but the model takes text'],
    ["DATE '1970-02-03' AS born", 'column born contains dates, but the model takes text'],
    ['now() AS amount', 'column amount contains timestamps, but the model takes a number'],
    [`'{"a":"B"}'::json->'a' AS branch`, 'column branch contains nested values, but the model takes text'],
    [`'{"a":"B"}'::jsonb->'a' AS born`, 'column born contains nested values, but the model takes text'],
    ["ARRAY['B'] AS branch", 'column branch contains nested values, but the model takes text'],
    ["ROW('B', 1) AS branch", 'column branch contains nested values, but the model takes text'],
    ['ARRAY[1] AS amount', 'column amount contains nested values, but the model takes a number'],
    ["'1'::money AS branch", 'column branch contains decimals, but the model takes text'],
    ["'\\x00'::bytea AS flag", 'column flag contains bytes, but the model takes a boolean'],
  ])('%s is refused before a row is read', async (columns, message) => {
    const error = await failure(read({ query: `SELECT ${columns} FROM loans` }));
    expect([error.code, error.message]).toEqual(['bad_type', expect.stringContaining(message)]);
  });

  test('a column of the model is not passed through: it would be read as JSON', async () => {
    const error = await failure(read({ table: 'loans' }, { passthrough: ['id', 'branch'] }));
    expect([error.code, error.message]).toEqual(['usage', expect.stringContaining('branch is a model column')]);
  });

  test('numbers stand for categories that are the texts of numbers, without the zeros behind their point', async () => {
    const codes = { 230: 0, '1.5': 1 };
    const manifest = { inputs: [], columns: [column('branch', 'category', { codes })] } as unknown as Manifest;
    const query = 'SELECT * FROM (VALUES (230.00::numeric), (1.50), (NULL)) AS v(branch)';
    expect(await read({ query }, { manifest })).toBe('branch\n230\n1.5\n""\n');
    expect(await read({ query: 'SELECT 230 AS branch' }, { manifest })).toBe('branch\n230\n');
  });

  test.each(['float4', 'float8', 'numeric'])(
    'NaN of %s is missing, in columns of numbers and of categories',
    async (type) => {
      const codes = { 230: 0, '1.5': 1 };
      const columns = [
        column('amount', 'number'),
        column('branch', 'category', { codes, missing: { values: ['NA'] } }),
      ];
      const manifest = { inputs: [], columns } as unknown as Manifest;
      const query = `SELECT x AS amount, x AS branch FROM (VALUES ('NaN'::${type}), ('1.5'), (NULL)) AS v(x)`;
      expect(await read({ query }, { manifest })).toBe('amount,branch\n,NA\n1.5,1.5\n,NA\n');
    },
  );

  test('money is a number, members of JSON are numbers and booleans', async () => {
    const query = `SELECT '-1234.5'::money AS amount, '{"a":2.5}'::json->'a' AS dummy, '{"a":true}'::jsonb->'a' AS active`;
    expect(await read({ query })).toBe('amount,dummy,active\n-1234.50,2.5,true\n');
    const manifest = { inputs: [], columns: [column('branch', 'category', { codes: { 12: 0, '1.5': 1 } })] };
    const words = "SELECT * FROM (VALUES ('12'::money), ('1.50')) AS v(branch)";
    expect(await read({ query: words }, { manifest: manifest as unknown as Manifest })).toBe('branch\n12\n1.5\n');
  });

  test('a query: all its columns, whatever ends it', async () => {
    const query = 'SELECT 1 AS amount, note AS other FROM loans WHERE id = 2 -- the end';
    expect(await read({ query })).toBe('amount,other\n1,\n');
    expect(await read({ query: 'SELECT 2 AS amount, now() > now() AS active ;; ' })).toBe('amount,active\n2,false\n');
    expect(await read({ query }, { passthrough: '*' })).toBe('amount,other\n1,null\n');
  });

  test('a row whose only column is NULL is a record, not a blank line', async () => {
    for (const [type, value] of [
      ['numeric', '2.5'],
      ['boolean', 'true'],
      ['text', 'B'],
    ]) {
      const kind = type === 'numeric' ? 'number' : type === 'boolean' ? 'boolean' : 'text';
      const manifest = { inputs: [], columns: [column('branch', kind)] } as unknown as Manifest;
      const query = `SELECT * FROM (VALUES (NULL::${type}), ('${value}'), (NULL)) AS v(branch)`;
      expect(await read({ query }, { manifest }), type).toBe(`branch\n""\n${value}\n""\n`);
    }
  });

  test.each(["'B'::text", "'B'::citext", "'B'::initial", '230', 'true'])(
    'a model without a text for a missing value: NULL of %s is not taken for an empty one',
    async (value) => {
      await server.query(
        "CREATE EXTENSION IF NOT EXISTS citext; DROP TYPE IF EXISTS initial; CREATE TYPE initial AS ENUM ('B')",
      );
      const codes = value === '230' ? { 230: 0 } : value === 'true' ? { true: 0, false: 1 } : undefined;
      const kind = codes ? 'category' : 'text';
      const missing = { values: [] };
      const manifest = { numbers: 'accept', inputs: [], columns: [column('branch', kind, { codes, missing })] };
      const query = `SELECT ${value} AS branch UNION ALL SELECT NULL`;
      const error = await failure(read({ query }, { manifest: manifest as unknown as Manifest }));
      expect([error.code, error.message]).toEqual([
        'database_refused',
        'the column branch: the model has no text for a missing value, so NULL would become an empty text; add a text to missing.values of the column in model.yaml',
      ]);
    },
  );

  test('one snapshot: what is committed while it is read is not in it', async () => {
    await server.query(
      "CREATE TABLE many AS SELECT g AS amount, repeat('x', 500) AS note FROM generate_series(1, 20000) g",
    );
    const source = await openQuery(settings({ table: 'many' }), { manifest: MANIFEST, passthrough: ['note'] });
    let lines = 0;
    let first = true;
    for await (const chunk of source.chunks) {
      if (first)
        await server.query('UPDATE many SET amount = -1; INSERT INTO many SELECT -2 FROM generate_series(1, 1000)');
      first = false;
      const text = Buffer.from(chunk).toString();
      expect(text).not.toMatch(/^-[12],/m);
      lines += text.split('\n').length - 1;
    }
    await source.close();
    expect(lines).toBe(20_001);
  });

  test('nothing is written, whatever the query does', async () => {
    await server.query('CREATE SEQUENCE counter');
    const error = await failure(read({ query: "SELECT nextval('counter') AS amount" }));
    expect([error.code, error.message]).toEqual([
      'database_refused',
      'the query: cannot execute nextval() in a read-only transaction, SQLSTATE 25006',
    ]);
  });

  test('a failure in the middle ends the input with an error, not as if it were whole', async () => {
    const division = await failure(read({ query: 'SELECT 1 / (500 - g) AS amount FROM generate_series(1, 1000) g' }));
    expect([division.code, division.message]).toEqual([
      'database_refused',
      'the query: the query divides by zero, SQLSTATE 22012',
    ]);
    const values = await failure(read({ query: "SELECT ('secret' || g)::int AS amount FROM generate_series(1, 9) g" }));
    expect(values.message).toBe('the query: a text is not of the type of its column, SQLSTATE 22P02');
    for (const end of ['terminate', 'crash'] as const) {
      const source = await openQuery(
        settings({ query: "SELECT repeat('x', 1000) AS born FROM generate_series(1, 200000)" }),
        {
          manifest: MANIFEST,
          passthrough: [],
        },
      );
      let read = 0;
      const all = async () => {
        for await (const chunk of source.chunks) {
          if (read === 0 && end === 'crash') await server.crash();
          else if (read === 0) await server.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'"); // biome-ignore format: one line
          read += chunk.length;
        }
      };
      expect((await failure(all())).code, end).toBe('database_failed');
      expect(read).toBeLessThan(200_000_000);
      await source.close();
    }
  });

  test('connections that cannot be had are told without user and password', async () => {
    const wrong = await failure(read({ table: 'loans', url: server.urlOf('sluice', 'secret') }));
    expect(wrong.code).toBe('database_refused');
    expect(wrong.message).toMatch(
      /^the database postgres at 127\.0\.0\.1:\d+ refused the connection: .*SQLSTATE 28P01$/,
    );
    expect(wrong.message).not.toContain('secret');
    const closed = await failure(read({ table: 'loans', url: 'postgresql://sluice:secret@127.0.0.1:1/postgres' }));
    expect([closed.code, closed.message]).toEqual([
      'database_unreachable',
      'the database postgres at 127.0.0.1:1: the connection failed (ECONNREFUSED)',
    ]);
    const plain = await failure(read({ table: 'loans', url: `${server.url}?sslmode=require` }));
    expect([plain.code, plain.message]).toEqual([
      'database_refused',
      `the database postgres at 127.0.0.1:${server.port}: the server does not support TLS; use sslmode=disable`,
    ]);
    expect((await failure(read({ table: 'loans', url_env: 'SLUICE_NO_SUCH' }))).code).toBe('usage');
  });

  checkTest('a run that was killed goes on by its key; where a row before it changed, it says so', async () => {
    const job: Job = { folder: scratch(), input: 'nightly.yaml', output: 'out.csv', flags: [] };
    const portfolio = Buffer.concat([
      ...generatePortfolio({ rows: 2000, seed: 5, faults: 0, oddness: 'light', ids: true }),
    ]);
    const [header, ...records] = portfolio.toString().trimEnd().split('\n').map((line) => line.split(',')); // biome-ignore format: one line
    const whole = records.filter((cells) => cells.length === header!.length);
    const objects = whole.map((cells) => Object.fromEntries(cells.map((cell, i) => [header![i], cell === '' ? null : cell]))); // biome-ignore format: one line
    await server.query(`CREATE TABLE nightly (nth int, ${header!.map((name) => `"${name}" text`).join(', ')})`);
    await server.query('INSERT INTO nightly SELECT (jsonb_populate_record(NULL::nightly, r)).* FROM jsonb_array_elements($1) r', [JSON.stringify(objects)]); // biome-ignore format: one line
    await server.query('INSERT INTO nightly SELECT g, n.* FROM generate_series(1, 6) g, (SELECT * FROM nightly) n'.replace('n.*', header!.map((name) => `n."${name}"`).join(', '))); // biome-ignore format: one line
    await server.query('DELETE FROM nightly WHERE nth IS NULL');
    vi.stubEnv('NIGHTLY', server.url);
    onTestFinished(() => void vi.unstubAllEnvs());
    writeFileSync(path.join(job.folder, job.input), `model: credit-default\nsource: { type: postgres, url_env: NIGHTLY, table: nightly, key: [application_id, nth] }\nsink: { type: file, path: out.csv }\nscore: { evaluator: native }\ncheckpoint_every: 0.001\n`); // biome-ignore format: one line
    const args = ['run', job.input, '--json'];
    const run = () => sluice(args, { cwd: job.folder });
    const first = await run();
    expect([0, 3], first.stderr).toContain(first.code);
    const made = unchained(madeBy(job, first));
    for (const name of Object.keys(made.files)) rmSync(path.join(job.folder, name));
    const { rows } = await killedRun(job, { checkpoints: 1, args });
    // Behind what was read there may be more rows; before it nothing may have changed.
    const last = (await server.query('SELECT amount, ctid FROM nightly ORDER BY application_id, nth LIMIT 1')).rows[0]!;
    await server.query(`UPDATE nightly SET amount = '1.5' WHERE ctid = '${last.ctid}'`);
    const changed = await run();
    expect([changed.code, changed.stderr]).toEqual([1, expect.stringContaining('[checkpoint_mismatch]')]);
    await server.query(`UPDATE nightly SET amount = '${last.amount}' WHERE amount = '1.5'`);
    const again = await run();
    expect([again.code, unchained(madeBy(job, again))]).toEqual([first.code, made]);
    expect(JSON.parse(again.stdout).resumedRows).toBeGreaterThanOrEqual(rows);
    expect(hiddenIn(job)).toEqual([]);
  });

  test('from file to table to table to file: the answers of a file, and keys that are still what they were', async () => {
    const folder = scratch();
    const portfolio = Buffer.concat([
      ...generatePortfolio({ rows: 200, seed: 11, faults: 4, oddness: 'none', ids: true }),
    ]);
    const input = path.join(folder, 'in.csv');
    writeFileSync(input, portfolio);
    const header = portfolio.toString().split('\n')[0]!.split(',');
    await server.query(`CREATE TABLE portfolio (${header.map((name) => `"${name}" text`).join(', ')})`);
    const records = portfolio.toString().trimEnd().split('\n').slice(1).filter((l) => l.split(',').length === header.length && !l.includes('"')); // biome-ignore format: one line
    for (const line of records) {
      const cells = line.split(',').map((cell) => (cell === '' ? null : cell));
      await server.query(`INSERT INTO portfolio VALUES (${cells.map((_, i) => `$${i + 1}`).join(', ')})`, cells);
    }
    writeFileSync(input, `${header.join(',')}\n${records.join('\n')}\n`);
    const pipeline = async (name: string, source: string, sink: string): Promise<Run> => {
      const file = path.join(folder, name);
      writeFileSync(file, `model: credit-default\nsource: ${source}\nscore: { passthrough: [application_id], workers: 1 }\nsink: ${sink}\n`); // biome-ignore format: one line
      return sluiceHere(['run', file], { cwd: folder, env: { DB: server.url } });
    };
    const table = (more: string) => `{ type: postgres, url_env: DB, ${more} }`;
    const runs = [
      await pipeline('a.yaml', '{ type: file, path: in.csv }', '{ type: file, path: a.csv }'),
      await pipeline('b.yaml', table('table: portfolio, key: [application_id]'), '{ type: file, path: b.csv }'),
      await pipeline('c.yaml', table('table: portfolio, key: [application_id]'), table('table: c, mode: merge, key: [application_id]')), // biome-ignore format: one line
    ];
    for (const { code, stderr } of runs) expect([code === 0 || code === 3, stderr]).toEqual([true, expect.anything()]);
    const want = readFileSync(path.join(folder, 'a.csv'), 'utf8');
    expect(readFileSync(path.join(folder, 'b.csv'), 'utf8')).toBe(want);
    const stored = await server.query('SELECT application_id, probability FROM c ORDER BY row');
    const wanted = want.trimEnd().split('\n').slice(1).map((l) => l.split(',')); // biome-ignore format: one line
    expect(stored.rows).toEqual(
      wanted.map((c) => ({ application_id: c[0], probability: c[3] === '' ? null : Number(c[3]) })),
    );
  });
});
