// What the service negotiates: TLS 1.2 or newer, with forward secrecy and authenticated encryption, also after its certificate changed.
import tls from 'node:tls';
import { generate } from 'selfsigned';
import { expect, onTestFinished, test } from 'vitest';
import { type Certificate, createListener, devCertificate } from '../../../src/doors/http/wire/listener.ts';

/** Key exchange with RSA and SHA-256 as the hash of a certificate are what a suite of TLS 1.2 may need. */
async function rsaCertificate(): Promise<Certificate> {
  const made = await generate([{ name: 'commonName', value: 'localhost' }], { keyType: 'rsa', algorithm: 'sha256' });
  return { cert: made.cert, key: made.private };
}

async function listening(certificate: Certificate) {
  const listener = createListener({ certificate, headersTimeoutMs: 60_000, keepAliveMs: 1000, headerBytes: 16_384 });
  listener.factory((_request, response) => response.end());
  const { port } = await listener.listen(0, '127.0.0.1');
  onTestFinished(() => {
    listener.close();
    listener.closeAll();
  });
  /** The suite that is agreed on, or null. */
  const agreed = (options: tls.ConnectionOptions) =>
    new Promise<string | null>((resolve) => {
      const socket = tls.connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options }, () => {
        const { name } = socket.getCipher();
        resolve(`${socket.getProtocol()} ${name}`);
        socket.destroy();
      });
      socket.on('error', () => resolve(null));
    });
  return { listener, agreed };
}

/** Weak at security level 0, so that it is the server that refuses. */
const weak = (suite: string): tls.ConnectionOptions => ({ maxVersion: 'TLSv1.2', ciphers: `${suite}:@SECLEVEL=0` });

const OF_RSA = ['AES128-GCM-SHA256', 'AES256-SHA256', 'AES128-SHA', 'ECDHE-RSA-AES128-SHA256', 'ECDHE-RSA-AES256-SHA'];
const OF_EC = [
  'ECDHE-ECDSA-AES128-SHA256',
  'ECDHE-ECDSA-AES256-SHA384',
  'ECDHE-ECDSA-AES128-SHA',
  'ECDHE-ECDSA-AES128-CCM',
];

test.each([
  [
    'RSA',
    rsaCertificate,
    OF_RSA,
    ['ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES256-GCM-SHA384', 'ECDHE-RSA-CHACHA20-POLY1305'],
  ],
  [
    'EC',
    devCertificate,
    OF_EC,
    ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-CHACHA20-POLY1305'],
  ],
] as const)(
  'with a key of %s only suites with forward secrecy and authenticated encryption',
  async (_, make, refused, taken) => {
    const { listener, agreed } = await listening(await make());
    for (const round of ['at the start', 'after a new certificate']) {
      if (round !== 'at the start') listener.replaceCertificate(await make());
      for (const suite of refused) expect([round, suite, await agreed(weak(suite))]).toEqual([round, suite, null]);
      for (const suite of taken) expect([round, await agreed(weak(suite))]).toEqual([round, `TLSv1.2 ${suite}`]);
      expect(await agreed({})).toMatch(/^TLSv1\.3 TLS_/);
      expect(await agreed({ minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' })).toBeNull();
    }
  },
);
