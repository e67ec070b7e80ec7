// Decisions, scorecard and reasons at registration and as a new version; the audit page that tells where a version comes from.
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { loadPackage, versionOf } from '../../src/model/package/load-package.ts';
import { FolderRegistry } from '../../src/model/registry/folder.ts';
import { type Audit, auditOf, auditSections, auditText, auditVerdict } from '../../src/onboarding/audit.ts';
import { writeNewVersion } from '../../src/onboarding/new-version.ts';
import { assertPolicyFits, readPolicy } from '../../src/onboarding/policy-file.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { codeOf, makePackage } from '../support/registries/packages.ts';
import { checkTest } from '../support/tiers.ts';
import { ZOO } from '../support/zoo.ts';

const BUNDLED = new FolderRegistry([path.resolve('src/bundled')]);

function policyFile(text: string): string {
  const file = path.join(scratch(), 'policy.yaml');
  writeFileSync(file, text);
  return file;
}

const STRICTER = `decisions:
  - { name: approve, min_probability: 0.9 }
  - { name: decline, min_probability: 0 }
reasons:
  amount: { code: A1, text: the amount that was asked for }
reasons_max: 2
`;

test.each([
  ['decisions: { approve: 0.9 }', ':1:12 decisions must be array'],
  ['decisions:\n  - { name: approve, min_probability: 9 }', ':2:39 decisions.0.min_probability must be <= 1'],
  ['reason_max: 3', ':1:1 unknown key reason_max (did you mean reasons_max?)'],
  ['columns: []', ':1:1 unknown key columns'],
  ['reasons:\n  amonut: none', ':2:3 reasons: the model has no column amonut (did you mean amount?)'],
  ['decisions:\n  - { name: a, min_probability: 1 }\n  - { name: a, min_probability: 0 }', 'decisions: a occurs twice'],
  ['decisions: [', ':1:13 '],
])('a policy that does not fit says where: %s', async (text, says) => {
  const { manifest } = await BUNDLED.resolve('credit-default');
  const file = policyFile(text);
  const refusal = await readPolicy(file)
    .then((policy) => assertPolicyFits(policy, manifest))
    .catch((e: { code: string; message: string }) => `${e.code}: ${e.message}`);
  expect(refusal).toContain('usage: ');
  expect(refusal).toContain(says);
  expect(refusal).toContain(file);
});

test('a scorecard for what is no probability is refused', async () => {
  const { manifest } = await BUNDLED.resolve('credit-default');
  const policy = await readPolicy(policyFile('scorecard: { base_points: 600, base_odds: 20, points_to_double_odds: 20 }'));
  assertPolicyFits(policy, manifest);
  expect(() => assertPolicyFits(policy, { ...manifest, task: 'regression' })).toThrow(/policy\.yaml:1:1 scorecard: /);
}); // biome-ignore format: one line a step

checkTest('a new version: another policy, and every other byte as it was', async () => {
  const from = await BUNDLED.resolve('credit-default');
  const [folder, root] = [scratch(), scratch()];
  const policy = await readPolicy(policyFile(STRICTER));
  const made = await writeNewVersion(folder, from, { version: '2', policy, reason: 'less default' });
  const { manifest } = made.model;
  expect(versionOf(manifest)).toBe('2');
  expect(made.model.locked).toBe(true);
  // What is not said is gone: the policy is replaced as a whole.
  const { scorecard, decisions, reasons, reasons_max, version: _, ...others } = manifest;
  expect({ scorecard, decisions, reasons, reasons_max }).toEqual({ scorecard: undefined, ...policy.policy });
  const { scorecard: _s, decisions: _d, reasons: _r, reasons_max: _m, version: _v, ...before } = from.manifest;
  expect(others).toEqual(before);
  for (const { name, sha256 } of from.files.filter((f) => !['model.yaml', 'package.lock'].includes(f.name))) {
    expect(made.model.files.find((f) => f.name === name)?.sha256, name).toBe(sha256);
  }
  expect(made.report.selfTest).toMatchObject({ passed: true });
  expect(made.report.from).toEqual({ model: from.ref, package_sha256: from.sha256, reason: 'less default' });
  expect(made.report.findings.map((f) => f.text).join()).toContain('reasons have neither a text nor none for');
  expect(made.differences.map((d) => d.at)).toContain('decisions.approve.min_probability');
  // And of the new version again: what was said of the reasons before is not said twice.
  const registry = new FolderRegistry([root]);
  await registry.add('credit-default', '2', folder, 'me');
  const none = Object.fromEntries(manifest.columns.map((c) => [c.name, 'none']));
  const third = await readPolicy(policyFile(JSON.stringify({ reasons: none })));
  const again = await writeNewVersion(scratch(), await registry.resolve('credit-default:2'), { version: '3', policy: third }); // biome-ignore format: one line
  expect(again.report.findings.map((f) => f.text).join()).not.toContain('reasons have neither');
  expect(again.report.from).toMatchObject({ model: 'credit-default:2' });
  // A self-test that no longer passes makes no version.
  const broken = makePackage('m', 1);
  const predictions = path.join(broken, 'selftest-expected.csv');
  const [head, ...rows] = readFileSync(predictions, 'utf8').trimEnd().split('\n');
  writeFileSync(predictions, [head, ...rows.map(() => '0.5'), ''].join('\n'));
  const refused = writeNewVersion(scratch(), await loadPackage(broken), { version: '2', policy });
  expect(await codeOf(refused)).toBe('self_test_failed');
});

test('the audit page leaves nothing out where nothing is known', async () => {
  const model = await BUNDLED.resolve('credit-default');
  const entry = (await BUNDLED.list()).find((m) => m.id === 'credit-default');
  const audit = await auditOf(model, { registry: BUNDLED, entry, trust: null });
  expect(audit).toMatchObject({ state: 'champion', proposed: null, approvals: [], signature: null, checked: null });
  const text = auditText(audit);
  for (const { title, facts } of auditSections(audit)) {
    expect(text).toContain(`\n${title}\n`);
    for (const [name] of facts) expect(text).toContain(name);
  }
  expect(text).toContain('Warnings\n  The package has no report card.');
  expect(text).toContain('Self-test\n  The package contains one; sluice model verify repeats it.');
  expect(text).toMatch(/registered +not recorded\n.*approved +by nobody\n/);
});

test('the audit page has a verdict for each section, and the worst for the version', async () => {
  const model = await BUNDLED.resolve('credit-default');
  const entry = (await BUNDLED.list()).find((m) => m.id === 'credit-default');
  const known = await auditOf(model, { registry: BUNDLED, entry, trust: null });
  const move = { at: '2026-01-01', who: 'ann', seq: 1 } as unknown as Audit['approvals'][number];
  const complete: Audit = {
    ...known, state: 'approved', training: { file: 't.csv', rows: 10, sha256: 'ab' } as Audit['training'], checked: { at: 'now', sluice: '1' },
    self_test: { passed: true, rows: 1, rejected: 0, largest: 0, tolerance: 1, source: 'x', beyond: 0, worst: 0 } as unknown as Audit['self_test'],
    witness: { fit: { rows: 1, auc: 0.8, logLoss: null, explainedVariance: null, brier: null, calibration: null, residuals: [] }, swaps: null, forced: null } as unknown as Audit['witness'], findings: [], approvals: [move],
    signature: { by: 'key 1', says: 'verified with all.pem' }, states: [{ ...move, verified: true }],
    journals: { aliases: 'empty', states: '1 entry, 1 in one chain' },
  }; // biome-ignore format: a table
  const of = (more: Partial<Audit>) => {
    const sections = auditSections({ ...complete, ...more });
    return { ...auditVerdict(sections), by: Object.fromEntries(sections.map((s) => [s.title, s.verdict.level])) };
  };
  expect(of({})).toMatchObject({ level: 'good', headline: 'The evidence is complete' });
  expect(of(known)).toMatchObject({ level: 'warn', by: { Who: 'warn', Training: 'warn', Warnings: 'none', States: 'warn' } }); // biome-ignore format: one line
  const cases: [Partial<Audit>, string, string][] = [
    [{ state: 'proposed' }, 'What it is', 'warn'],
    [{ approvals: [] }, 'Who', 'warn'],
    [{ signature: { by: null, says: 'not checked: no key (--key)' } }, 'Who', 'none'],
    [{ signature: { by: null, says: 'not verified with all.pem: x' } }, 'Who', 'bad'],
    [{ journals: { aliases: 'empty', states: 'BROKEN: x' } }, 'Who', 'bad'],
    [{ journals: { aliases: 'BROKEN: x', states: 'empty' } }, 'Aliases', 'bad'],
    [{ self_test: { ...complete.self_test!, passed: false } }, 'Self-test', 'bad'],
    [{ witness: { ...complete.witness!, forced: { reason: 'r', contradictions: [] } } }, 'Against the training table', 'bad'],
    [{ findings: [{ level: 'warning', text: 'w' }] as unknown as Audit['findings'] }, 'Warnings', 'warn'],
    [{ findings: [{ level: 'assumed', text: 'w' }] as unknown as Audit['findings'] }, 'Assumed without evidence', 'warn'],
    [{ baseline: null }, 'Drift baseline', 'warn'],
    [{ policy: {} }, 'Policy', 'warn'],
    [{ states: [{ ...move, verified: false }] }, 'States', 'bad'],
    [{ states: [{ ...move, verified: null }] }, 'States', 'none'],
  ]; // biome-ignore format: a table
  for (const [more, title, level] of cases) {
    const found = of(more);
    expect([title, found.by[title]]).toEqual([title, level]);
    if (level !== 'none') expect([title, found.level]).toEqual([title, level]);
  }
});

checkTest(
  'at the command line: a policy at registration, approval, a new version, and the page on all of it',
  async () => {
    const root = scratch();
    const at = (name: string) => path.join(root, name);
    const flags = ['--registry', at('models')];
    const people = { ann: generateKeyPairSync('ec', { namedCurve: 'P-256' }), bob: generateKeyPairSync('ec', { namedCurve: 'P-256' }) }; // biome-ignore format: one line
    let both = '';
    for (const [name, { privateKey, publicKey }] of Object.entries(people)) {
      writeFileSync(at(`${name}.pem`), privateKey.export({ type: 'pkcs8', format: 'pem' }));
      both += publicKey.export({ type: 'spki', format: 'pem' });
    }
    writeFileSync(at('all.pem'), both);
    const onnx = path.join(ZOO, 'models/skl-boosting-int64');
    const table = ['--training-data', path.join(ZOO, 'data/train.csv'), '--ignore', 'loss_rate,grade'];
    const expected = ['--expected', path.join(onnx, 'expected-clean.csv'), '--expected-rows', path.join(ZOO, 'data/clean.csv')]; // biome-ignore format: one line
    const policy = policyFile(STRICTER);
    const add = ['model', 'add', path.join(onnx, 'model.onnx'), '--id', 'm', ...table, ...expected, ...flags, '--sign-key', at('ann.pem')]; // biome-ignore format: one line
    const wrong = await sluiceHere([...add, '--policy', policyFile('reasons: { nothing: none }')]);
    expect([wrong.code, wrong.stderr]).toEqual([
      2,
      expect.stringContaining('policy.yaml:1:12 reasons: the model has no'),
    ]);
    const added = await sluiceHere([...add, '--policy', policy]);
    expect([added.code, added.stdout]).toEqual([0, 'm:1\n']);
    expect(readFileSync(at('models/m/1/model.yaml'), 'utf8')).toContain('min_probability: 0.9');
    expect((await sluiceHere(['model', 'approve', 'm:1', '--key', at('bob.pem'), '--reason', 'report 17', ...flags])).code).toBe(0); // biome-ignore format: one line
    const next = ['model', 'new-version', '--from', 'm:1', '--policy', policyFile(STRICTER.replace('0.9', '0.8')), ...flags]; // biome-ignore format: one line
    expect((await sluiceHere([...next, '--dry-run'])).stderr).toContain('decisions.approve.min_probability: 0.9 → 0.8');
    expect(existsSync(at('models/m/2'))).toBe(false);
    expect((await sluiceHere([...next, '--reason', 'softer'])).stdout).toBe('m:2\n');
    const show = (ref: string, ...more: string[]) => sluiceHere(['model', 'show', ref, '--audit', ...flags, ...more]);
    const page = await show('m:1', '--key', at('all.pem'), '--html', at('page.html'));
    expect(page.code).toBe(0);
    expect(page.stdout).toMatch(/state +approved\n/);
    expect(page.stdout).toMatch(/signature of the package +key [0-9a-f]{64}, verified with .*all\.pem\n/);
    expect(page.stdout).toMatch(/approved by .*, key [0-9a-f]{16}…: report 17 \(verified\)\n/);
    expect(page.stdout).toMatch(/decisions +approve from 0\.9, decline from 0\n/);
    expect(page.stdout).toContain('Passed: 200 rows agree');
    expect(page.stdout).toMatch(/AUC 0\.\d+/);
    const html = readFileSync(at('page.html'), 'utf8');
    expect(html).not.toMatch(/<script|https?:|src=/);
    expect(html).toMatch(/<div class="verdict warn"><p>Evidence is incomplete/);
    expect(html.match(/<h2>[^<]*<\/h2><p><b class="(good|warn|bad|none)">/g)).toHaveLength(11);
    for (const words of ['Audit of m:1', 'Assumed without evidence', 'report 17']) expect(html).toContain(words);
    const second = JSON.parse((await show('m:2', '--json')).stdout);
    expect(second).toMatchObject({ state: 'proposed', from: { model: 'm:1', reason: 'softer' }, proposed: { why: 'softer' }, signature: null }); // biome-ignore format: one line
    expect(second.training.sha256).toMatch(/^[0-9a-f]{64}$/);
  },
);
