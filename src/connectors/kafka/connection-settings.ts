// Converts the kafka section of a pipeline into connection settings.

import { SluiceError } from '../../core/errors.ts';
import type { KafkaConnection, KafkaLogin, KafkaTls, TokenEndpoint } from './client/connection.ts';
import type { KafkaConfig } from './kafka-options.ts';

/** Whether a text has the form `host:port`. */
export function isBrokerAddress(address: string): boolean {
  const port = Number(/^[^\s,/]+:(\d{1,5})$/.exec(address.trim())?.[1] ?? 0);
  return port > 0 && port < 65_536;
}

/**
 * The connection settings. The brokers come from the pipeline, or else from $SLUICE_KAFKA_BROKERS.
 * @throws SluiceError kafka_config
 */
export function connectionOf(kafka: KafkaConfig): KafkaConnection {
  const brokers = kafka.brokers ?? (process.env.SLUICE_KAFKA_BROKERS ?? '').split(',').filter((b) => b.trim() !== '');
  if (brokers.length === 0) {
    throw new SluiceError('kafka_config', 'no brokers: set kafka.brokers in the pipeline or $SLUICE_KAFKA_BROKERS');
  }
  const wrong = brokers.find((address) => !isBrokerAddress(address));
  if (wrong !== undefined) {
    const where = kafka.brokers === undefined ? '$SLUICE_KAFKA_BROKERS' : 'kafka.brokers';
    throw new SluiceError('kafka_config', `${where}: ${wrong.trim()} is not host:port`);
  }
  const { tls, sasl } = kafka;
  return {
    brokers: brokers.map((b) => b.trim()),
    clientId: kafka.client_id,
    connectTimeoutMs: kafka.connect_timeout_ms,
    requestTimeoutMs: kafka.request_timeout_ms,
    ...(kafka.rack === undefined ? {} : { rack: kafka.rack }),
    ...(sasl === undefined ? {} : { sasl: loginOf(sasl) }),
    ...(tls === undefined ? {} : { tls: typeof tls === 'boolean' ? tls : tlsSettings(tls) }),
  };
}

type SaslKeys = NonNullable<KafkaConfig['sasl']>;

/** @throws SluiceError kafka_config if a required key is missing */
function loginOf({ mechanism, username, password, token, token_endpoint, extensions }: SaslKeys): KafkaLogin {
  if (mechanism === 'oauthbearer') {
    return {
      mechanism,
      ...(token === undefined ? {} : { token }),
      ...(token_endpoint === undefined ? {} : { endpoint: endpointOf(token_endpoint) }),
      ...(extensions === undefined ? {} : { extensions }),
    };
  }
  if (username === undefined || password === undefined) {
    throw new SluiceError('kafka_config', `kafka.sasl: mechanism: ${mechanism} needs username and password`);
  }
  return { mechanism, username, password };
}

const endpointOf = (e: NonNullable<SaslKeys['token_endpoint']>): TokenEndpoint => ({
  url: e.url,
  clientId: e.client_id,
  clientSecret: e.client_secret,
  authMethod: e.auth_method,
  ...(e.scope === undefined ? {} : { scope: e.scope }),
  ...(e.audience === undefined ? {} : { audience: e.audience }),
  ...(e.tls === undefined ? {} : { tls: tlsSettings(e.tls) }),
  timeoutMs: e.timeout_ms,
});

type TlsKeys = Exclude<KafkaConfig['tls'], boolean | undefined>;

/** Converts a tls section of a pipeline, which applies to brokers or to the schema registry. */
export const tlsSettings = (tls: TlsKeys): KafkaTls => ({
  ...(tls.ca_file === undefined ? {} : { caFile: tls.ca_file }),
  ...(tls.certificate_file === undefined ? {} : { certFile: tls.certificate_file }),
  ...(tls.key_file === undefined ? {} : { keyFile: tls.key_file }),
  ...(tls.key_passphrase === undefined ? {} : { keyPassphrase: tls.key_passphrase }),
  ...(tls.server_name === undefined ? {} : { serverName: tls.server_name }),
});
