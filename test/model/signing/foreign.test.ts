// model_signing of the OpenSSF verifies what Sluice signs, and Sluice what that signs: with keys and with certificates.
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sluice } from '../../support/cli.ts';
import { installModelSigning } from '../../support/registries/install.ts';
import { requireServer } from '../../support/registries/require.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';

await requireServer('model_signing of the OpenSSF', installModelSigning, (folder) => {
  let home: string;
  const at = (name: string) => path.join(home, name);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: home, stdio: 'pipe' });
  const theirs = (...args: string[]) =>
    spawnSync(path.join(folder, 'bin', 'model_signing'), args, { encoding: 'utf8', cwd: home });
  const ours = async (...args: string[]) => sluice(['model', ...args], { cwd: home });

  function makeKeys(): void {
    home = mkdtempSync(path.join(tmpdir(), 'sluice-signing-'));
    for (const name of ['key', 'root', 'signer']) {
      openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', `${name}.pem`);
    }
    openssl('ec', '-in', 'key.pem', '-pubout', '-out', 'key.pub.pem');
    const authority = 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n';
    writeFileSync(at('root.ext'), authority);
    writeFileSync(at('signer.ext'), 'keyUsage=critical,digitalSignature\n');
    for (const [name, issuer] of [
      ['root', ['-signkey', 'root.pem']],
      ['signer', ['-CA', 'root.crt', '-CAkey', 'root.pem', '-CAcreateserial']],
    ] as const) {
      openssl('req', '-new', '-key', `${name}.pem`, '-subj', `/CN=${name}`, '-out', `${name}.csr`);
      openssl('x509', '-req', '-in', `${name}.csr`, ...issuer, '-days', '2', '-extfile', `${name}.ext`, '-out', `${name}.crt`); // biome-ignore format: one line
    }
  }
  beforeAll(makeKeys);
  afterAll(() => rmSync(home, { recursive: true }));

  /** A package with files in a folder below, whose names sort in another way as text than as paths. */
  function packageIn(name: string): string {
    cpSync(CREDIT_DEFAULT, at(name), { recursive: true });
    for (const folder of ['notes', 'notes-old']) mkdirSync(at(`${name}/${folder}`));
    for (const file of ['notes/a', 'notes-old/a', 'notes.txt', 'Z ä.txt']) writeFileSync(at(`${name}/${file}`), file);
    rmSync(at(`${name}/package.lock`));
    return name;
  }

  const KINDS = {
    key: {
      ours: ['--key', 'key.pem'],
      theirs: ['key', '--private_key', 'key.pem'],
      trusted: ['--key', 'key.pub.pem'],
      theyTrust: ['key', '--public_key', 'key.pub.pem'],
    },
    certificate: {
      ours: ['--key', 'signer.pem', '--certificates', 'signer.crt'],
      theirs: ['certificate', '--private_key', 'signer.pem', '--signing_certificate', 'signer.crt', '--certificate_chain', 'root.crt'], // biome-ignore format: one line
      trusted: ['--certificates', 'root.crt'],
      theyTrust: ['certificate', '--certificate_chain', 'root.crt'],
    },
  } as const;

  test.each(['key', 'certificate'] as const)(
    'what Sluice signs with a %s, they verify; a changed file they name',
    async (kind) => {
      const folder = packageIn(`ours-${kind}`);
      const made = await ours('sign', folder, ...KINDS[kind].ours);
      expect([made.code, made.stderr]).toEqual([0, '']);
      const verify = () => theirs('verify', ...KINDS[kind].theyTrust, '--signature', `${folder}/model.sig`, folder);
      const good = verify();
      expect([good.status, good.stdout], good.stderr).toEqual([0, expect.stringContaining('succeeded')]);
      appendFileSync(at(`${folder}/background.csv`), ' ');
      const bad = verify();
      expect([bad.status, bad.stdout + bad.stderr]).toEqual([1, expect.stringContaining('background.csv')]);
    },
  );

  test.each(['key', 'certificate'] as const)(
    'what they sign with a %s, Sluice verifies; a changed file it names',
    async (kind) => {
      const folder = packageIn(`theirs-${kind}`);
      const made = theirs('sign', ...KINDS[kind].theirs, '--signature', `${folder}/model.sig`, folder);
      expect(made.status, made.stderr).toBe(0);
      const verify = () => ours('verify-signature', folder, ...KINDS[kind].trusted);
      const good = await verify();
      expect([good.code, good.stderr]).toEqual([0, '']);
      // A lock that is written afterwards names the same files.
      expect((await ours('seal', folder)).code).toBe(0);
      expect((await verify()).code).toBe(0);
      rmSync(at(`${folder}/package.lock`));
      const before = readFileSync(at(`${folder}/notes/a`));
      appendFileSync(at(`${folder}/notes/a`), ' ');
      const bad = await verify();
      expect([bad.code, bad.stderr]).toEqual([
        1,
        expect.stringMatching(/notes\/a was changed.*\[signature_invalid\]/s),
      ]);
      writeFileSync(at(`${folder}/notes/a`), before);
      expect((await verify()).code).toBe(0);
    },
  );
});
