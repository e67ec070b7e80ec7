// A listener of a test broker with TLS and a login by SCRAM, as a bank would have it.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { generate } from 'selfsigned';
import type { KafkaConnection, PasswordLogin } from '../../../src/connectors/kafka/client/connection.ts';
import { freePorts } from '../ports.ts';
import type { KafkaCluster } from './cluster.ts';
import type { ExtraSettings } from './settings.ts';

export const PASSWORD = 'pass-word-of-the-test';

/** Over TLS, with a password. */
export type SecuredConnection = KafkaConnection & { sasl: PasswordLogin };

export class SecuredListener {
  /** Lets the broker have it. */
  readonly settings: ExtraSettings;
  readonly #address: string;
  readonly #authority: string;

  private constructor(address: string, certificate: string, key: string) {
    const oneLine = (text: string) => text.trim().replaceAll(/\r?\n/g, '\\n');
    this.#address = address;
    this.#authority = certificate;
    this.settings = (own) => ({
      listeners: `${own.listeners},LOGIN://${address}`,
      'advertised.listeners': `${own['advertised.listeners']},LOGIN://${address}`,
      'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL',
      'sasl.enabled.mechanisms': 'SCRAM-SHA-256',
      'listener.name.login.scram-sha-256.sasl.jaas.config':
        'org.apache.kafka.common.security.scram.ScramLoginModule required;',
      'ssl.keystore.type': 'PEM',
      'ssl.keystore.certificate.chain': oneLine(certificate),
      'ssl.keystore.key': oneLine(key),
    });
  }

  static async open(): Promise<SecuredListener> {
    const [port] = await freePorts(1);
    const { cert, private: key } = await generate([{ name: 'commonName', value: 'broker.test' }], {
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'broker.test' }] }],
    });
    return new SecuredListener(`127.0.0.1:${port}`, cert, key);
  }

  /** Makes the user known to the broker that was started with `settings`. */
  async connection(cluster: KafkaCluster): Promise<SecuredConnection> {
    const pem = path.join(cluster.folder, 'ca.pem');
    const password = path.join(cluster.folder, 'password');
    writeFileSync(pem, this.#authority);
    writeFileSync(password, `${PASSWORD}\n`);
    await cluster.addScramUser('reader', PASSWORD, 256);
    return {
      brokers: [this.#address],
      tls: { caFile: pem, serverName: 'broker.test' },
      sasl: { mechanism: 'scram-sha-256', username: 'reader', password: { file: password } },
    };
  }
}
