// `sluice replay` with a database at either end: a table that was written, a query that was read.
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { requirePostgres } from '../../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../../support/postgres/server.ts';

const ROWS = 40;
const ROW = 23;
const TEXT = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 9, faults: 0, ids: true })]).toString();

requirePostgres('replay', () => {
  let server: PostgresServer;
  let folder: string;
  const at = (name: string) => path.join(folder, name);
  beforeAll(async () => {
    server = await startPostgres();
    const [header] = TEXT.split('\n', 1);
    const columns = header!.split(',').map((name) => `"${name}" text`);
    await server.query(`CREATE TABLE applications (${columns.join(', ')})`);
    for (const line of TEXT.trimEnd().split('\n').slice(1)) {
      const cells = line.split(',').map((cell) => (cell === '' ? null : cell));
      await server.query(`INSERT INTO applications VALUES (${cells.map((_, i) => `$${i + 1}`).join(', ')})`, cells);
    }
  });
  afterAll(() => server?.stop());
  beforeEach(() => {
    folder = scratch();
    writeFileSync(at('in.csv'), TEXT);
  });

  const env = () => ({ DB: server.url });
  const pipeline = (name: string, source: string, sink: string): string => {
    const file = at(`${name}.yaml`);
    const score = 'score: { passthrough: [application_id], interpretation: effects, workers: 1 }';
    writeFileSync(file, `model: credit-default\nsource: ${source}\n${score}\nsink: ${sink}\non_invalid: report\n`);
    return file;
  };
  const replay = async (output: string, ...more: string[]) => {
    const { code, stdout, stderr } = await sluiceHere(['replay', output, '--row', String(ROW), '--json', ...more], {
      cwd: folder,
      env: env(),
    });
    return { code, stderr, ...(stdout === '' ? {} : JSON.parse(stdout)) };
  };
  const QUERY = '{ type: postgres, url_env: DB, table: applications, key: [application_id] }';

  // Rows that were appended: the next test.
  test.each([
    ['replace', '{ type: file, path: in.csv }'],
    ['from_query', QUERY],
  ])('a row of a table: %s', async (name, source) => {
    const file = pipeline(name, source, `{ type: postgres, url_env: DB, table: ${name}, mode: replace }`);
    // A type that holds less than a double, and a column that Sluice does not write.
    const more = name === 'replace' ? ', added text' : '';
    const made = await sluiceHere(['run', file], { cwd: folder, env: env() });
    expect(made.code, made.stderr).toBe(0);
    if (more) await server.query(`ALTER TABLE ${name} ALTER probability TYPE real, ADD added text DEFAULT 'x'`);
    expect(await replay(file)).toMatchObject({ code: 0, same: true });
    await server.query(`UPDATE ${name} SET points = points + 1 WHERE "row" = ${ROW}`);
    const changed = await replay(file);
    expect(changed).toMatchObject({ code: 1, same: false, stderr: expect.stringContaining('[verification_failed]') });
    const [written, again] = [JSON.parse(changed.written), JSON.parse(changed.again)];
    expect({ ...written, points: String(Number(written.points) - 1) }).toEqual(again);
    await server.query(`DELETE FROM ${name} WHERE "row" = ${ROW}`);
    expect(await replay(file)).toMatchObject({ code: 1, stderr: expect.stringContaining(`has no row ${ROW}`) });
  });

  test('of several appended runs, the row of any one is found', async () => {
    const sink = '{ type: postgres, url_env: DB, table: nights, mode: append }';
    const [header, ...lines] = TEXT.trimEnd().split('\n') as [string, ...string[]];
    writeFileSync(at('other.csv'), [header, ...lines.toReversed()].join('\n'));
    const [first, second] = [pipeline('first', '{ type: file, path: in.csv }', sink), pipeline('second', '{ type: file, path: other.csv }', sink)]; // biome-ignore format: one line
    for (const file of [first, second]) {
      const { code, stderr } = await sluiceHere(['run', file], { cwd: folder, env: env() });
      expect(code, stderr).toBe(0);
    }
    const replays = [await replay(first), await replay(second)];
    expect(replays).toMatchObject([{ same: true }, { same: true }]);
    expect(replays[0].written).not.toBe(replays[1].written);
  });

  // Other formats of the output: test/proof/replay-outputs.test.ts.
  test('a row of a file made from a query', async () => {
    const file = pipeline('to_file', QUERY, '{ type: file, path: out.csv }');
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    writeFileSync(at('key.pem'), privateKey.export({ type: 'pkcs8', format: 'pem' }));
    writeFileSync(at('key.pub.pem'), publicKey.export({ type: 'spki', format: 'pem' }));
    const made = await sluiceHere(['run', file], { cwd: folder, env: { ...env(), SLUICE_SIGN_KEY: at('key.pem') } });
    expect(made.code, made.stderr).toBe(0);
    // A manifest of anybody names no database to ask.
    const unasked = await replay(at('out.csv'));
    expect(unasked).toMatchObject({ code: 2, stderr: expect.stringContaining('needs --key') });
    const key = ['--key', at('key.pub.pem')];
    const replayed = () => replay(at('out.csv'), ...key);
    expect(await replayed()).toMatchObject({ code: 0, same: true });
    expect(await replay(at('out.csv'), '--input', 'in.csv', ...key)).toMatchObject({ code: 2 });
    const { rows } = await server.query(`SELECT application_id, amount FROM applications ORDER BY application_id LIMIT 1 OFFSET ${ROW - 1}`); // biome-ignore format: one line
    const set = (amount: string) => server.query('UPDATE applications SET amount = $1 WHERE application_id = $2', [amount, rows[0].application_id]); // biome-ignore format: one line
    await set(String(Number(rows[0].amount) * 3 + 1000));
    expect(await replayed()).toMatchObject({ code: 1, same: false });
    await set(rows[0].amount);
  });

  test('what has no rows to replay is refused', async () => {
    const topic = pipeline('topic', '{ type: kafka, topic: a, group: g }', '{ type: postgres, url_env: DB, table: t }');
    expect(await replay(topic)).toMatchObject({ code: 2, stderr: expect.stringContaining('not kafka') });
    const files = pipeline('files', '{ type: file, path: in.csv }', '{ type: file, path: out.csv }');
    expect(await replay(files)).toMatchObject({ code: 2, stderr: expect.stringContaining('sink of type postgres') });
  });
});
