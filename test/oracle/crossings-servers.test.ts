// The same through real servers: tables of PostgreSQL as the source and the sink, and topics of Kafka, judged by the oracle.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import YAML from 'yaml';
import { SluiceError } from '../../src/core/errors.ts';
import { driveRun } from '../../src/doors/commands/drive-run.ts';
import { readPipeline } from '../../src/runs/read-pipeline.ts';
import { KafkaCluster } from '../support/kafka/cluster.ts';
import { requireKafka } from '../support/kafka/require.ts';
import { eachRecord, produce } from '../support/kafka/topics.ts';
import { requirePostgres } from '../support/postgres/require.ts';
import { type PostgresServer, startPostgres } from '../support/postgres/server.ts';
import fc from '../support/seeded-fast-check.ts';
import { SEED, times } from '../support/tiers.ts';
import { type Case, combinations, type ModelName } from './combinations.ts';
import { MEMBERS, namesOf, textOfPassed } from './compare.ts';
import { PACKAGES } from './entries.ts';
import { type Answer, answer, OracleModel, type Passed, type Verdict } from './oracle.ts';
import { storedInput } from './stored-input.ts';

const COUNT = times('server crossings', { quick: 0, check: 5, campaigns: 1_000 });
const NATIVE = ['trees', 'classes', 'value'] as const;

const models = new Map<ModelName, OracleModel>();
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'sluice-server-crossings-'));
  for (const name of NATIVE) models.set(name, await OracleModel.open(path.join(PACKAGES[0]!, name, '1')));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a pipeline; null: it ended well, else the code of its error. */
async function run(pipeline: object): Promise<string | null> {
  const file = path.join(folder, 'crossing.yaml');
  writeFileSync(file, YAML.stringify(pipeline));
  try {
    await driveRun(
      { ...(await readPipeline(file)), resume: 'restart' },
      { name: 'crossing', registry: PACKAGES[0]!, quiet: true },
    );
    return null;
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return error.code;
  }
}

/** What a field of an answer is in a table: text, or null. */
function fieldOf({ row, score, error }: Answer, name: string): string | number | null {
  if (name === 'row') return row;
  if (name === 'error_code') return error?.code ?? null;
  if (name === 'error_column') return error?.column ?? null;
  if (!score) return null;
  if (name.startsWith('probability.')) return score.probabilities!.get(name.slice('probability.'.length))!;
  return (score as Record<string, string | number | undefined>)[name] ?? null;
}

const sampled = (arbitrary: fc.Arbitrary<Case>): Case[] => fc.sample(arbitrary, { numRuns: COUNT, seed: SEED });

requirePostgres('tables', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
    process.env.SLUICE_CROSSINGS_DATABASE = server.url;
  });
  afterAll(async () => {
    delete process.env.SLUICE_CROSSINGS_DATABASE;
    await server.stop();
  });
  const end = { type: 'postgres', url_env: 'SLUICE_CROSSINGS_DATABASE' };

  /** The case without what a table cannot have: names longer than 63 bytes there are none, columns twice neither. */
  const plain = (c: Case): boolean => c.passthrough !== '*' && c.inputCompression === 'none';

  async function expected(c: Case, declared: object, input: Parameters<typeof answer>[0]['input']): Promise<Verdict> {
    const model = models.get(c.model)!;
    const { answers } = namesOf({ ...c, interpretation: 'none' }, model);
    return answer({
      model,
      input,
      declared,
      passthrough: c.passthrough,
      failOnInvalid: c.onInvalid === 'fail',
      allowEmpty: c.allowEmpty,
      reserved: ['row', ...answers, 'error_code', 'error_column', 'error_message'],
      names: 'at once',
      refusesOutcome: false,
    });
  }

  async function compare(c: Case, refused: string | null, verdict: Verdict): Promise<void> {
    const label = `seed ${SEED} ${JSON.stringify(c)}`;
    if ('refused' in verdict) {
      expect(verdict.refused, label).toContain(
        refused === 'usage' || refused === 'database_refused' ? 'header_mismatch' : refused,
      );
      return;
    }
    expect(refused, label).toBe(null);
    const { rows } = await server.query('SELECT * FROM scored ORDER BY "row"');
    expect(rows.length, label).toBe(verdict.rows.length);
    const { answers } = namesOf({ ...c, interpretation: 'none' }, models.get(c.model)!);
    for (const [i, wanted] of verdict.rows.entries()) {
      const found = rows[i] as Record<string, unknown>;
      for (const name of c.passthrough as string[]) {
        expect(found[name], `${label} row ${i + 1} ${name}`).toBe(textOfPassed(wanted.passed.get(name)));
      }
      for (const name of ['row', ...answers, 'error_code', 'error_column']) {
        const value = found[name] === null ? null : String(found[name]);
        // A table has no empty decision.
        const field = fieldOf(wanted, name) === '' ? null : fieldOf(wanted, name);
        const same =
          field === null ? value === null : typeof field === 'number' ? Number(value) === field : value === field;
        expect(same, `${label} row ${i + 1}: ${name} is ${value} instead of ${field}`).toBe(true);
      }
    }
  }

  test('files into a table', async () => {
    const cases = sampled(combinations({ entries: ['command'], models: NATIVE }).filter(plain));
    for (const c of cases) {
      const { bytes, input, declared } = storedInput(c);
      const file = path.join(folder, `in.${c.input}`);
      writeFileSync(file, bytes);
      const { names, rename, ignore, constants, ...rest } = declared;
      const columns = { names, rename, ignore, constants };
      await server.query('DROP TABLE IF EXISTS scored');
      const refused = await run({
        model: c.model,
        source: {
          type: 'file',
          path: file,
          format: c.input,
          ...(c.input === 'csv' || c.input === 'tsv' ? { delimiter: c.input === 'tsv' ? 'tab' : c.delimiter } : {}),
          ...(names ? { header: false } : {}),
          ...(Object.values(columns).some((v) => v !== undefined)
            ? { columns: JSON.parse(JSON.stringify(columns)) }
            : {}),
          ...rest,
        },
        score: { passthrough: c.passthrough, workers: 1 },
        sink: { ...end, table: 'scored', mode: 'replace' },
        on_invalid: c.onInvalid,
        ...(c.allowEmpty ? { allow_empty: true } : {}),
      });
      await compare(c, refused, await expected(c, declared, input));
    }
  });

  test('a table into a table', async () => {
    // Text alone: what other types become is compared in the tests of the source.
    const texts = combinations({ entries: ['command'], models: NATIVE })
      .filter((c) => plain(c) && c.columns.every(({ type, name }) => type === 'text' && name !== 'ok'))
      .filter((c) => !models.get(c.model)!.manifest.columns.some(({ name }) => c.passthrough.includes(name)))
      .map((c): Case => ({ ...c, input: 'csv', declared: { ...c.declared, constant: null } }));
    for (const c of sampled(texts)) {
      const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
      const rows = c.columns[0]!.cells.length;
      await server.query('DROP TABLE IF EXISTS applications; DROP TABLE IF EXISTS scored');
      await server.query(
        `CREATE TABLE applications ("place" bigint, ${c.columns.map(({ name }) => `${quoted(name)} text`).join(', ')})`,
      );
      for (let r = 0; r < rows; r++) {
        const values = [r, ...c.columns.map(({ cells }) => cells[r] ?? null)];
        await server.query(`INSERT INTO applications VALUES (${values.map((_, i) => `$${i + 1}`).join(', ')})`, values);
      }
      const refused = await run({
        model: c.model,
        source: { ...end, table: 'applications', key: ['place'] },
        score: { passthrough: c.passthrough, workers: 1 },
        sink: { ...end, table: 'scored', mode: 'replace' },
        on_invalid: c.onInvalid,
        ...(c.allowEmpty ? { allow_empty: true } : {}),
      });
      const columns = c.columns.map(({ name, cells }) => ({ name, type: 'text' as const, values: cells }));
      await compare(c, refused, await expected(c, { ignore: '*' }, { format: 'table', columns }));
    }
  });
});

/** What is passed through as a member of JSON; undefined: it is not there. */
const memberOf = (passed: Passed | undefined): unknown =>
  passed && 'token' in passed ? JSON.parse(passed.token) : undefined;

requireKafka('topics', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());

  test('records of JSON into records of JSON', async () => {
    const json = combinations({ entries: ['library'], models: NATIVE })
      .filter((c) => c.columns[0]!.cells.length > 2 && c.interpretation === 'none')
      .map(
        (c): Case => ({
          ...c,
          input: 'ndjson',
          onInvalid: 'report',
          layout: { ...c.layout, blankLines: false, mark: false, ends: 'lf', finalEnd: true },
        }),
      );
    for (const [n, c] of sampled(json)
      .slice(0, Math.max(1, COUNT / 2))
      .entries()) {
      const { input, declared } = storedInput(c);
      const lines = (input as { bytes: Buffer }).bytes.toString('utf8').split('\n').filter(Boolean);
      const [from, to] = await Promise.all([
        cluster.createTopic(`crossing-in-${n}`, 1),
        cluster.createTopic(`crossing-out-${n}`, 1),
      ]);
      await produce(cluster, from, lines.map((value, i) => ({ key: `${i}`, value, partition: 0 }))); // biome-ignore format: one line
      const label = `seed ${SEED} ${JSON.stringify(c)}`;
      const refused = await run({
        model: c.model,
        source: { type: 'kafka', topic: from, group: `crossing-${n}`, until_caught_up: true },
        score: { passthrough: c.passthrough, workers: 1, batch_rows: Math.min(7, c.tuning.batchRows) },
        sink: { type: 'kafka', topic: to },
        on_invalid: 'report',
        kafka: { brokers: [cluster.brokers[0]], session_timeout_ms: 3000 },
      });
      const reserved = [...MEMBERS, 'modelId', 'modelVersion'];
      const model = models.get(c.model)!;
      const verdict = await answer({
        model,
        input,
        declared,
        passthrough: c.passthrough,
        failOnInvalid: false,
        allowEmpty: true,
        reserved,
        names: 'by the row',
        refusesOutcome: false,
      });
      if ('refused' in verdict) {
        expect(verdict.refused, label).toContain(refused);
        continue;
      }
      expect(refused, label).toBe(null);
      const found: { key: string; value: Record<string, unknown> }[] = [];
      await eachRecord(cluster, to, ({ key, value }) => {
        found.push({ key: key!.toString(), value: JSON.parse(value!.toString()) });
      });
      expect(found.length, label).toBe(verdict.rows.length);
      for (const [i, wanted] of verdict.rows.entries()) {
        const { key, value } = found[i]!;
        expect([key, value.modelId], label).toEqual([String(i), c.model]);
        const {
          modelId: _,
          modelVersion: __,
          error,
          ...rest
        } = value as { modelId: string; modelVersion: string; error?: { code: string; column?: string } };
        expect([error?.code ?? null, error?.column ?? null], `${label} row ${i + 1}`).toEqual([
          wanted.error?.code ?? null,
          wanted.error?.column ?? null,
        ]);
        const score = Object.fromEntries(
          Object.entries(wanted.score ?? {}).map(([name, v]) => [
            name,
            v instanceof Map ? Object.fromEntries(v) : name === 'prediction' && c.model === 'trees' ? v === 'true' : v,
          ]),
        );
        const passed = Object.fromEntries([...wanted.passed].map(([name, p]) => [name, memberOf(p)]));
        expect(rest, `${label} row ${i + 1}`).toEqual({ ...passed, ...JSON.parse(JSON.stringify(score)) });
      }
    }
  });
});
