// Manifests, parts, plans, journals and packages of others: what they name is looked for where it has to be, and a signature is for one output.
import { createHash, generateKeyPairSync } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { besideStored } from '../../src/connectors/stored-bytes.ts';
import { isInnerPath, isPlainName } from '../../src/core/file-names.ts';
import { readJournal, writeJournal } from '../../src/io/sink/commit-journal.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { publicKeys } from '../../src/model/registry/trusted.ts';
import { trustOf } from '../../src/model/signing/model-signature.ts';
import type { JsonValue } from '../../src/proof/canonical-json.ts';
import { readKey, seal, unseal } from '../../src/proof/envelope.ts';
import { partsOf } from '../../src/runs/plugins/shard-part.ts';
import { namedPlan, planText, readPlan } from '../../src/runs/shards/shard-plan.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { makePackage } from '../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';

const ROWS = path.join(CREDIT_DEFAULT, 'selftest.csv');

function keyPair(folder: string): { secret: string; known: string } {
  const [secret, known] = [path.join(folder, 'key.pem'), path.join(folder, 'key.pub.pem')];
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  writeFileSync(secret, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  writeFileSync(known, publicKey.export({ type: 'spki', format: 'pem' }));
  return { secret, known };
}

const OUTSIDE = ['../x', 'a/b', '/etc/hostname', '..', '.', '', 'a\0b', 'a/../../x'];

test('what is a name, and what is a path that stays inside', () => {
  for (const name of OUTSIDE) expect([name, isPlainName(name)]).toEqual([name, false]);
  for (const name of ['a', 'a.csv', '..a', 'a..b', '.a', 'a b', 'ä'])
    expect([name, isPlainName(name)]).toEqual([name, true]);
  for (const name of ['../x', '/etc/hostname', '', 'a/../../x', '..', 'a\0b'])
    expect([name, isInnerPath(name)]).toEqual([name, false]);
  for (const name of ['a', 'a/b', 'a/../b', '..a/b']) expect([name, isInnerPath(name)]).toEqual([name, true]);
  for (const name of OUTSIDE)
    expect(() => besideStored('/data/out.csv', name)).toThrow(/not the name of a file in the folder/);
  expect(besideStored('s3://bucket/a/out.csv', 'x')).toBe('s3://bucket/a/x');
});

test('a private key is rejected wherever a public key is expected', async () => {
  const folder = scratch();
  const file = path.join(folder, 'key.pem');
  for (const type of ['pkcs8', 'sec1'] as const) {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const secret = String(privateKey.export({ type, format: 'pem' }));
    const known = String(publicKey.export({ type: 'spki', format: 'pem' }));
    const refusal = `${file} contains a private key: use the public key, and keep the private key secret`;
    expect(() => readKey(secret, 'public', file)).toThrow(refusal);
    expect(() => trustOf(secret, file)).toThrow(refusal);
    expect(() => publicKeys(`${known}${secret}`, file)).toThrow(refusal);
    for (const key of [readKey(known, 'public', file), ...publicKeys(known, file)]) expect(key.type).toBe('public');
    expect(trustOf(known, file).kind).toBe('key');
    writeFileSync(file, secret);
    const { code, stderr } = await sluiceHere(['verify', path.join(folder, 'any.csv'), '--key', file]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(refusal)]);
  }
});

test('a signed output is that of its own name and time, not of another day', async () => {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  const { secret, known } = keyPair(folder);
  const before = Date.now();
  const score = (output: string) =>
    sluiceHere(['score', ROWS, '-m', 'credit-default', '-o', at(output), '--sign-key', secret, '--quiet']);
  expect((await score('2026-11-23.csv')).code).toBe(0);
  const verify = async (output: string, ...more: string[]) => {
    const { code, stdout, stderr } = await sluiceHere(['verify', at(output), '--key', known, '--json', ...more]);
    return { code, stderr, ...JSON.parse(stdout) };
  };
  const own = await verify('2026-11-23.csv');
  expect(own).toMatchObject({ code: 0, whole: true });
  expect(Date.parse(own.finished)).toBeGreaterThanOrEqual(before - 1);
  expect(Date.parse(own.finished)).toBeLessThanOrEqual(Date.now() + 1);
  expect((await sluiceHere(['verify', at('2026-11-23.csv'), '--key', known])).stdout).toContain(
    `finished ${own.finished}`,
  );
  // Without the key, the name in the signature may be anybody's.
  expect((await sluiceHere(['verify', at('2026-11-23.csv')])).stdout).toMatch(
    /; signature of [0-9a-f]{16} not verified \(use --key\), finished /,
  );
  // Yesterday's output and its manifest, both whole and signed, under today's name.
  for (const ending of ['', '.manifest.json'])
    copyFileSync(at(`2026-11-23.csv${ending}`), at(`2026-11-24.csv${ending}`));
  const replayed = await verify('2026-11-24.csv');
  expect(replayed).toMatchObject({ code: 1, whole: false, findings: [{ file: 'output', kind: 'name' }] });
  expect(replayed.findings[0].text).toContain('describes 2026-11-23.csv, not 2026-11-24.csv');
  // Whoever renamed it on purpose says so.
  expect(await verify('2026-11-24.csv', '--written-as', '2026-11-23.csv')).toMatchObject({ code: 0, whole: true });
  // Without a signature a time would be anybody's: there is none, and the same run leaves the same bytes.
  const unsigned = ['score', ROWS, '-m', 'credit-default', '-o', at('plain.csv'), '--quiet'];
  expect((await sluiceHere(unsigned)).code).toBe(0);
  expect(readFileSync(at('plain.csv.manifest.json'), 'utf8')).not.toContain('finished');
  const { code, stdout } = await sluiceHere(['verify', at('plain.csv'), '--json']);
  expect([code, JSON.parse(stdout).finished]).toEqual([0, null]);
});

test('a manifest that names paths is invalid, whoever signed it', async () => {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  const { secret, known } = keyPair(folder);
  writeFileSync(at('rows.csv'), `${readFileSync(ROWS, 'utf8').split('\n').slice(0, 3).join('\n')}\nnone\n`);
  mkdirSync(at('out'));
  const made = await sluiceHere([
    'score',
    at('rows.csv'),
    '-m',
    'credit-default',
    '-o',
    at('out/o.csv'),
    '--sign-key',
    secret,
  ]);
  expect(made.code, made.stderr).toBe(3);
  const file = at('out/o.csv.manifest.json');
  const { statement } = unseal(readFileSync(file, 'utf8'), null);
  const key = readKey(readFileSync(secret, 'utf8'), 'private', secret);
  for (const [member, subject] of [
    ['list', 1],
    ['input', null],
    ['output', 0],
  ] as const) {
    for (const name of ['../rows.csv', '/etc/hostname']) {
      const changed = structuredClone(statement) as unknown as {
        subject: { name: string }[];
        predicate: Record<string, { name: string }>;
      };
      changed.predicate[member]!.name = name;
      if (subject !== null) changed.subject[subject]!.name = name;
      writeFileSync(file, seal(changed as unknown as JsonValue, key));
      const run = await sluiceHere(['verify', at('out/o.csv'), '--key', known]);
      expect([member, run.code, run.stdout]).toEqual([
        member,
        1,
        expect.stringContaining('it contains a path instead of a file name'),
      ]);
      const replay = await sluiceHere(['replay', at('out/o.csv'), '--row', '1']);
      expect([member, replay.code, replay.stderr]).toEqual([member, 1, expect.stringContaining('[manifest_invalid]')]);
    }
  }
});

test('parts, plans, journals and packages name nothing outside their folder', async () => {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
  const planned = (name: string) =>
    namedPlan({
      ...{ kind: 'sluice-plan', format: 1, shards: 1, record_bytes: 1000, block_bytes: 1000, pieces: [] },
      files: [
        {
          name,
          format: 'csv',
          compression: 'none',
          delimiter: ',',
          bytes: 1,
          sha256: '',
          head: { bytes: 0, line: 1, sha256: '' },
        },
      ],
    });
  for (const name of ['in/..', '..', '']) {
    writeFileSync(at('plan.json'), planText(planned(name)));
    await expect(readPlan(at('plan.json'))).rejects.toMatchObject({ code: 'plan_invalid' });
  }
  const plan = planned('in/a.csv');
  writeFileSync(at('plan.json'), planText(plan));
  expect(await readPlan(at('plan.json'))).toEqual(plan);
  for (const [name, code] of [
    ['../rejects.csv', 'parts_mismatch'],
    ['p.csv.rejects.csv', undefined],
  ] as const) {
    const part = { kind: 'sluice-part', plan: plan.sha256, output: { name: 'p.csv' }, rejects: { name } };
    writeFileSync(at('p.csv.part.json'), JSON.stringify({ ...part, sha256: sha256(JSON.stringify(part)) }));
    const found = await partsOf([at('p.csv')], plan).then(
      () => undefined,
      (e: { code: string }) => e.code,
    );
    expect([name, found]).toEqual([name, code]);
  }
  // A journal moves and removes what a commit made beside its output, and nothing below or above that.
  const [target, hidden] = [at('o.csv'), at('.o.csv.x')];
  const journal = async (temporary: string, backup: string) => {
    await writeJournal(at('j'), at('j.tmp'), [{ target, temporary, backup, before: null, after: null, beside: false }]);
    return (await readJournal(at('j'))) !== null;
  };
  expect(await journal(hidden, `${hidden}.before`)).toBe(true);
  for (const elsewhere of [at('.o.csv./../../x'), at('.o.csv.d/x'), at('o.csv'), '/etc/hostname']) {
    expect([elsewhere, await journal(elsewhere, hidden), await journal(hidden, elsewhere)]).toEqual([
      elsewhere,
      false,
      false,
    ]);
  }
  for (const line of [/(\bfile: ).*$/m, /(\bbackground: )[\w.]+/, /(\bexpected: )[\w.-]+/]) {
    const model = makePackage('m', 1);
    const yaml = readFileSync(path.join(model, 'model.yaml'), 'utf8');
    expect(line.test(yaml)).toBe(true);
    writeFileSync(path.join(model, 'model.yaml'), yaml.replace(line, '$1../outside'));
    await expect(loadPackage(model)).rejects.toMatchObject({
      code: 'model_invalid',
      message: expect.stringContaining('../outside lies outside the package'),
    });
  }
});
