// Signatures of packages: whoever signed, with a key or a certificate, and nothing else comes through where one is required.
import { execFileSync } from 'node:child_process';
import { createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { copyFileSync, cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { openModel } from '../../../src/index.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import { SIGNATURE } from '../../../src/model/package/package-hash.ts';
import { FolderRegistry } from '../../../src/model/registry/folder.ts';
import { trusting } from '../../../src/model/registry/trusted.ts';
import {
  type ModelTrust,
  signerOf,
  signModel,
  trustOf,
  verifyModel,
} from '../../../src/model/signing/model-signature.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { codeOf, copyUnlocked, makePackage } from '../../support/registries/packages.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import { checkTest } from '../../support/tiers.ts';
import { testNeeding } from '../../support/tools.ts';

const pemOf = (key: KeyObject): string =>
  key.export({ type: key.type === 'private' ? 'pkcs8' : 'spki', format: 'pem' }).toString();

function newKey(namedCurve = 'P-256'): { pem: string; trust: ModelTrust } {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve });
  return { pem: pemOf(privateKey), trust: trustOf(pemOf(createPublicKey(privateKey)), 'k') };
}

const failure = (work: () => unknown): string => {
  try {
    work();
    return 'fine';
  } catch (e) {
    return `${(e as { code?: string }).code}: ${(e as Error).message}`;
  }
};

test.each(['P-256', 'P-384', 'P-521'])('a key on %s signs what is there, and nothing else', async (curve) => {
  const { pem, trust } = newKey(curve);
  const folder = makePackage('m', 1);
  const model = await loadPackage(folder);
  const text = signModel(model, signerOf(pem, 'k', null));
  expect(failure(() => verifyModel(model, text, trust))).toBe('fine');
  expect(failure(() => verifyModel(model, text, newKey(curve).trust))).toMatch(/^signature_invalid: .*another key/);
  writeFileSync(path.join(folder, 'background.csv'), 'x');
  writeFileSync(path.join(folder, 'notes.txt'), 'x');
  const changed = await loadPackage(folder);
  expect(failure(() => verifyModel(changed, text, trust))).toMatch(
    /^signature_invalid: .*background\.csv was changed, notes\.txt was added/,
  );
  const fewer = { ...model, files: model.files.filter((f) => f.name !== 'selftest.csv') };
  expect(failure(() => verifyModel(fewer, text, trust))).toMatch(/selftest\.csv was removed/);
});

test('whatever of a bundle is exchanged, it is refused in a sentence', async () => {
  const { pem, trust } = newKey();
  const model = await loadPackage(CREDIT_DEFAULT);
  const bundle = () => JSON.parse(signModel(model, signerOf(pem, 'k', null)));
  type Bundle = ReturnType<typeof bundle>;
  const payloadOf = (b: Bundle) => JSON.parse(Buffer.from(b.dsseEnvelope.payload, 'base64').toString());
  const changes: [string, (b: Bundle) => void][] = [
    ['payload', (b) => (b.dsseEnvelope.payload = Buffer.from(`${JSON.stringify(payloadOf(b))} `).toString('base64'))],
    ['signature', (b) => (b.dsseEnvelope.signatures[0].sig = bundle().dsseEnvelope.signatures[0].sig.slice(0, -8))],
    ['is not a signature', (b) => (b.dsseEnvelope.signatures = [])],
    ['two signatures', (b) => b.dsseEnvelope.signatures.push(b.dsseEnvelope.signatures[0])],
    ['type of the bundle', (b) => (b.mediaType = 'application/json')],
    ['type of the payload', (b) => (b.dsseEnvelope.payloadType = 'text/plain')],
    ['hint', (b) => (b.verificationMaterial.publicKey.hint = '00')],
    ['material', (b) => delete b.verificationMaterial],
    ['certificate', (b) => (b.verificationMaterial = { x509CertificateChain: { certificates: [] }, tlogEntries: [] })],
  ];
  for (const [name, change] of changes) {
    const changed = bundle();
    change(changed);
    // A certificate that is not asked for is not looked at: the key alone decides.
    const expected = name === 'certificate' ? /^fine$/ : /^signature_invalid: model\.sig /;
    expect(
      failure(() => verifyModel(model, JSON.stringify(changed), trust)),
      name,
    ).toMatch(expected);
  }
  for (const text of ['', '{', '[]', 'null', '{"mediaType":1}']) {
    expect(
      failure(() => verifyModel(model, text, trust)),
      text,
    ).toMatch(/^signature_invalid: /);
  }
});

test('keys that are none, or of another kind, are usage errors', () => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const ed25519 = generateKeyPairSync('ed25519');
  for (const pem of ['', pemOf(rsa.privateKey), pemOf(ed25519.privateKey)]) {
    expect(failure(() => signerOf(pem, 'k.pem', null))).toMatch(/^usage: k\.pem contains /);
  }
  for (const pem of ['', pemOf(rsa.publicKey), pemOf(ed25519.publicKey), newKey().pem]) {
    expect(failure(() => trustOf(pem, 'k.pem'))).toMatch(/^usage: k\.pem contains /);
  }
});

checkTest('where a signature or a lock is required, nothing else comes out of a registry, at any door', async () => {
  const root = scratch();
  const at = (name: string) => path.join(root, name);
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  writeFileSync(at('k.pem'), pemOf(privateKey));
  writeFileSync(at('k.pub.pem'), pemOf(createPublicKey(privateKey)));
  copyUnlocked(CREDIT_DEFAULT, at('models/credit-default/1'));
  const trusted = (policy: object) => trusting(new FolderRegistry([at('models')]), policy);
  const locked = await trusted({ require_lock: true });
  const signed = await trusted({ require_signature: at('k.pub.pem') });
  expect(await codeOf(locked.resolve('credit-default'))).toBe('lock_missing');
  expect(await codeOf(signed.resolve('credit-default'))).toBe('signature_missing');
  expect(await codeOf(signed.moveAlias('credit-default', 'champion', '1', 'me'))).toBe('signature_missing');
  const flags = ['--registry', at('models')];
  const score = async (...more: string[]) => {
    const rows = path.join(CREDIT_DEFAULT, 'selftest.csv');
    const run = await sluiceHere(['score', rows, '-m', 'credit-default', '-o', at('out.csv'), ...flags, ...more]);
    return [run.code, /\[(\w+)\]/.exec(run.stderr)?.[1]];
  };
  expect(await score('--require-lock')).toEqual([1, 'lock_missing']);
  expect(await score('--require-signature', at('k.pub.pem'))).toEqual([1, 'signature_missing']);
  const made = await sluiceHere(['model', 'sign', 'credit-default', '--key', at('k.pem'), ...flags]);
  expect([made.code, made.stdout]).toEqual([0, `${at('models/credit-default/1/model.sig')}\n`]);
  expect(await score('--require-lock', '--require-signature', at('k.pub.pem'))).toEqual([0, undefined]);
  const said = await sluiceHere(['model', 'verify-signature', 'credit-default', '--key', at('k.pub.pem'), ...flags]);
  expect([said.code, said.stdout]).toEqual([
    0,
    expect.stringMatching(/^credit-default:1 [0-9a-f]{64} was signed by key /),
  ]);
  await expect.poll(() => codeOf(signed.resolve('credit-default').then((m) => m.ref))).toBe('credit-default:1');
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
  writeFileSync(at('other.pub.pem'), pemOf(other));
  process.env.SLUICE_REQUIRE_SIGNATURE = at('other.pub.pem');
  try {
    expect(await codeOf(openModel('credit-default', { registry: at('models'), workers: 1 }))).toBe('signature_invalid');
  } finally {
    delete process.env.SLUICE_REQUIRE_SIGNATURE;
  }
});

const AUTHORITY = 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n';

/**
 * A root, an intermediate authority and a signer, made by OpenSSL. `usage`: extensions of the signer; `root` and `between`: those of the
 * authorities; `second`: of a second intermediate authority, below the first.
 */
function chain(
  folder: string,
  usage: string,
  { root = AUTHORITY, between = AUTHORITY, second }: { root?: string; between?: string; second?: string } = {},
): { key: string; chain: string; root: string } {
  const at = (name: string) => path.join(folder, name);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
  const issue = (name: string, by: string | null, extensions: string) => {
    openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', `${name}.pem`);
    writeFileSync(at(`${name}.ext`), extensions);
    openssl('req', '-new', '-key', `${name}.pem`, '-subj', `/CN=${name}`, '-out', `${name}.csr`);
    const issuer =
      by === null ? ['-signkey', `${name}.pem`] : ['-CA', `${by}.crt`, '-CAkey', `${by}.pem`, '-CAcreateserial'];
    openssl(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      ...issuer,
      '-days',
      '2',
      '-extfile',
      `${name}.ext`,
      '-out',
      `${name}.crt`,
    );
  };
  issue('root', null, root);
  issue('between', 'root', between);
  if (second !== undefined) issue('second', 'between', second);
  issue('signer', second === undefined ? 'between' : 'second', usage);
  const names = ['signer.crt', ...(second === undefined ? [] : ['second.crt']), 'between.crt'];
  writeFileSync(at('chain.pem'), names.map((f) => readFileSync(at(f), 'utf8')).join(''));
  return { key: at('signer.pem'), chain: at('chain.pem'), root: at('root.crt') };
}

testNeeding(['openssl'], 'certificates lead from the signer to a root, and are for signing', async () => {
  const model = await loadPackage(CREDIT_DEFAULT);
  const signedBy = (c: ReturnType<typeof chain>) =>
    signModel(
      model,
      signerOf(readFileSync(c.key, 'utf8'), c.key, { pem: readFileSync(c.chain, 'utf8'), file: c.chain }),
    );
  const trust = (file: string) => trustOf(readFileSync(file, 'utf8'), file);
  const good = chain(scratch(), 'keyUsage=critical,digitalSignature\n');
  expect(verifyModel(model, signedBy(good), trust(good.root)).by).toBe('CN=signer');
  const code = chain(scratch(), 'extendedKeyUsage=codeSigning\n');
  expect(verifyModel(model, signedBy(code), trust(code.root)).by).toBe('CN=signer');
  expect(failure(() => verifyModel(model, signedBy(good), trust(code.root)))).toMatch(/no trusted certificate issued/);
  // What stands between has to be there, and to be allowed to issue.
  const alone = { ...good, chain: good.chain.replace('chain.pem', 'signer.crt') };
  expect(failure(() => verifyModel(model, signedBy(alone), trust(good.root)))).toMatch(/no trusted certificate issued/);
  expect(failure(() => verifyModel(model, signedBy(good), newKey().trust))).toMatch(/another key/);
  expect(failure(() => signerOf(newKey().pem, 'k', { pem: readFileSync(good.chain, 'utf8'), file: 'c' }))).toMatch(
    /^usage: /,
  );
  // A chain of certificates that is too long is refused before any signature in it is verified.
  const long = JSON.parse(signedBy(good));
  const material = long.verificationMaterial.x509CertificateChain;
  material.certificates = Array.from({ length: 17 }, () => material.certificates[0]);
  expect(failure(() => verifyModel(model, JSON.stringify(long), trust(good.root)))).toMatch(/more than 16/);
  const folder = scratch();
  cpSync(CREDIT_DEFAULT, path.join(folder, 'p'), { recursive: true });
  copyFileSync(good.root, path.join(folder, 'root.crt'));
  const signing = ['--key', good.key, '--certificates', good.chain];
  expect((await sluiceHere(['model', 'sign', path.join(folder, 'p'), ...signing])).code).toBe(0);
  expect((await loadPackage(path.join(folder, 'p'))).files.map((f) => f.name)).toContain(SIGNATURE);
  const told = await sluiceHere([
    'model',
    'verify-signature',
    path.join(folder, 'p'),
    '--certificates',
    good.root,
    '--json',
  ]);
  expect(JSON.parse(told.stdout)).toMatchObject({ model: 'credit-default:1', signed_by: 'CN=signer' });
});

const SIGNATURES = 'keyUsage=critical,digitalSignature\n';
const PURPOSES: [string, string, Parameters<typeof chain>[2], RegExp][] = [
  ['code signing', `${SIGNATURES}extendedKeyUsage=codeSigning\n`, {}, /^fine$/],
  ['code signing beside TLS', `${SIGNATURES}extendedKeyUsage=serverAuth,codeSigning\n`, {}, /^fine$/],
  ['a TLS server', `${SIGNATURES}extendedKeyUsage=serverAuth\n`, {}, /not for signatures of code/],
  ['a TLS server and client', `${SIGNATURES}extendedKeyUsage=serverAuth,clientAuth\n`, {}, /not for signatures of code/],
  ['any purpose', `${SIGNATURES}extendedKeyUsage=anyExtendedKeyUsage\n`, {}, /not for signatures of code/],
  ['key agreement', 'keyUsage=critical,keyAgreement\nextendedKeyUsage=codeSigning\n', {}, /not for signatures of code/],
  ['no purpose at all', 'subjectKeyIdentifier=hash\n', {}, /not for signatures of code/],
  ['an authority for TLS', SIGNATURES, { between: `${AUTHORITY}extendedKeyUsage=serverAuth\n` }, /no trusted certificate issued/],
  ['an authority for code', SIGNATURES, { between: `${AUTHORITY}extendedKeyUsage=codeSigning\n` }, /^fine$/],
  ['an issuer that is no authority', SIGNATURES, { between: SIGNATURES }, /no trusted certificate issued/],
  ['a constraint on names', SIGNATURES, { between: `${AUTHORITY}nameConstraints=critical,permitted;DNS:a.b\n` }, /no trusted certificate issued/],
  ['a path within its length', SIGNATURES, { between: AUTHORITY.replace('TRUE', 'TRUE,pathlen:1'), second: AUTHORITY }, /^fine$/],
  ['a path beyond its length', SIGNATURES, { between: AUTHORITY.replace('TRUE', 'TRUE,pathlen:0'), second: AUTHORITY }, /no trusted certificate issued/],
  ['a path beyond the length of the root', SIGNATURES, { root: AUTHORITY.replace('TRUE', 'TRUE,pathlen:0') }, /no trusted certificate issued/],
]; // biome-ignore format: a table

testNeeding(['openssl'], 'purpose and path length of every certificate decide who may sign', async () => {
  const model = await loadPackage(CREDIT_DEFAULT);
  for (const [name, usage, authorities, expected] of PURPOSES) {
    const { key, chain: file, root } = chain(scratch(), usage, authorities);
    const signer = signerOf(readFileSync(key, 'utf8'), key, { pem: readFileSync(file, 'utf8'), file });
    const text = signModel(model, signer);
    expect(
      failure(() => verifyModel(model, text, trustOf(readFileSync(root, 'utf8'), root))),
      name,
    ).toMatch(expected);
  }
});

testNeeding(['openssl'], 'only the named signers may sign, where names are required', async () => {
  const model = await loadPackage(CREDIT_DEFAULT);
  const usage = `${SIGNATURES}subjectAltName=URI:spiffe://bank.example/models,DNS:root\n`;
  const { key, chain: file, root } = chain(scratch(), usage);
  const pem = readFileSync(root, 'utf8');
  const text = signModel(model, signerOf(readFileSync(key, 'utf8'), key, { pem: readFileSync(file, 'utf8'), file }));
  const by = (...signers: string[]) => failure(() => verifyModel(model, text, trustOf(pem, root, signers)));
  expect(by('somebody', 'signer')).toBe('fine');
  expect(by('URI:spiffe://bank.example/models')).toBe('fine');
  // Neither an alternative name without its kind, nor part of a name, nor the name of an authority.
  for (const other of ['spiffe://bank.example/models', 'URI:signer', 'sign', 'between', 'CN=signer', 'root']) {
    expect(by(other), other).toMatch(/^signature_invalid: .*CN=signer, which is not among the required signers/);
  }
  const folder = scratch();
  cpSync(CREDIT_DEFAULT, path.join(folder, 'credit-default', '1'), { recursive: true });
  writeFileSync(path.join(folder, 'credit-default', '1', SIGNATURE), text);
  const codeFor = async (policy: object) =>
    codeOf((await trusting(new FolderRegistry([folder]), policy)).resolve('credit-default').then((m) => m.ref));
  expect(await codeFor({ require_signature: root, require_signer: ['signer'] })).toBe('credit-default:1');
  expect(await codeFor({ require_signature: root, require_signer: ['another'] })).toBe('signature_invalid');
  expect(await codeOf(trusting(new FolderRegistry([folder]), { require_signer: ['signer'] }))).toBe('usage');
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  expect(failure(() => trustOf(pemOf(publicKey), 'k.pem', ['signer']))).toMatch(/^usage: .*need certificates/);
  const at = path.join(folder, 'credit-default', '1');
  const flags = ['model', 'verify-signature', at, '--certificates', root, '--signer'];
  expect((await sluiceHere([...flags, 'signer'])).code).toBe(0);
  expect((await sluiceHere([...flags, 'another'])).stderr).toMatch(/\[signature_invalid\]/);
  const rows = path.join(CREDIT_DEFAULT, 'selftest.csv');
  const score = ['score', rows, '-m', 'credit-default', '-o', path.join(folder, 'out.csv'), '--registry', folder];
  const asked = ['--require-signature', root, '--require-signer'];
  expect((await sluiceHere([...score, ...asked, 'another'])).stderr).toMatch(/\[signature_invalid\]/);
  expect((await sluiceHere([...score, ...asked, 'another, signer'])).code).toBe(0);
});
