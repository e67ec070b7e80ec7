// An authority made by openssl: certificates of clients, and a list of those that it has revoked.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { scratch } from './cli.ts';

const CONFIG = `[ca]
default_ca = own
[own]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
default_days = 2
default_crl_days = 2
unique_subject = no
copy_extensions = none
[any]
commonName = supplied
[req]
distinguished_name = dn
prompt = no
[dn]
CN = unused
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
`;

export interface ClientCredential {
  cert: string;
  key: string;
  file: string;
}

export class Authority {
  readonly folder = scratch();
  readonly file = path.join(this.folder, 'ca.pem');
  readonly crlFile = path.join(this.folder, 'crl.pem');

  constructor(name: string) {
    writeFileSync(path.join(this.folder, 'ca.cnf'), CONFIG);
    writeFileSync(path.join(this.folder, 'index.txt'), '');
    writeFileSync(path.join(this.folder, 'serial'), '01');
    this.#openssl('req', '-x509', ...NEW_KEY, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', `/CN=${name}`, '-days', '2', '-config', 'ca.cnf', '-extensions', 'authority'); // biome-ignore format: one line
    this.list();
  }

  /** A certificate of this authority. `days` below 0: one that has expired. */
  issue(
    name: string,
    { uri, use = 'clientAuth', days = 2 }: { uri?: string; use?: string; days?: number } = {},
  ): ClientCredential {
    const names = uri === undefined ? '' : `subjectAltName = URI:${uri}\n`;
    writeFileSync(path.join(this.folder, 'leaf.cnf'), `extendedKeyUsage = ${use}\n${names}`);
    const file = `${crypto.randomUUID()}.pem`;
    this.#openssl('req', ...NEW_KEY, '-keyout', `${file}.key`, '-out', 'leaf.csr', '-subj', `/CN=${name}`, '-config', 'ca.cnf'); // biome-ignore format: one line
    const at = (ms: number) => `${new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '')}`;
    const span = ['-startdate', at(Date.now() - 9 * 86_400_000), '-enddate', at(Date.now() + days * 86_400_000)];
    this.#openssl('ca', '-batch', '-config', 'ca.cnf', '-cert', 'ca.pem', '-keyfile', 'ca.key', '-in', 'leaf.csr', '-out', file, '-extfile', 'leaf.cnf', '-notext', ...span); // biome-ignore format: one line
    const read = (name: string) => readFileSync(path.join(this.folder, name), 'utf8');
    return { cert: read(file), key: read(`${file}.key`), file: path.join(this.folder, file) };
  }

  revoke({ file }: ClientCredential): void {
    this.#openssl('ca', '-config', 'ca.cnf', '-cert', 'ca.pem', '-keyfile', 'ca.key', '-revoke', file);
    this.list();
  }

  /** Writes the list of what is revoked. */
  list(): void {
    this.#openssl('ca', '-config', 'ca.cnf', '-cert', 'ca.pem', '-keyfile', 'ca.key', '-gencrl', '-out', 'crl.new');
    // In one go, as what distributes lists does.
    execFileSync('mv', ['crl.new', 'crl.pem'], { cwd: this.folder });
  }

  #openssl(...args: string[]): void {
    execFileSync('openssl', args, { cwd: this.folder, stdio: 'pipe' });
  }
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
