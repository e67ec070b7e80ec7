// SASL OAUTHBEARER for kafkajs: its own takes every answer of the broker for a welcome, so that a refused token shows as a broken connection.
import type { AuthenticationProviderArgs, Mechanism, SaslAuthenticateArgs } from 'kafkajs';
import { SluiceError } from '../../core/errors.ts';
import { BEARER_FAREWELL, bearerMessage, bearerRefusal, bearerTokens } from '../client/bearer-tokens.ts';
import type { BearerLogin } from '../client/connection.ts';
import { causesOf } from '../client/failures.ts';
import kafkajs from './repairs.ts';

const LENGTH_BYTES = 4;

/** `prepare` is called before each exchange: what fails there leaves the login that still holds alone. */
export function bearerMechanism(login: BearerLogin): Mechanism & { prepare(): Promise<void> } {
  const tokens = bearerTokens(login);
  return {
    mechanism: 'oauthbearer',
    prepare: () =>
      told(async () => {
        await tokens.credential();
      }),
    authenticationProvider: ({ saslAuthenticate }: AuthenticationProviderArgs) => ({
      authenticate: () =>
        told(async () => {
          const say = async (bytes: Buffer) => (await saslAuthenticate(message(bytes))) ?? null;
          const answer = await say(bearerMessage(await tokens.credential())).catch((error: unknown) => {
            const refused = causesOf(error).some((e) => 'type' in e && e.type === 'SASL_AUTHENTICATION_FAILED');
            throw refused ? tokens.refused('SASL_AUTHENTICATION_FAILED') : error;
          });
          const refusal = bearerRefusal(answer);
          if (refusal !== null) {
            await say(BEARER_FAREWELL).catch(() => {});
            throw tokens.refused(refusal);
          }
          tokens.accepted();
        }),
    }),
  };
}

/** The bytes behind their length, as kafkajs expects them of a mechanism. */
const message = (bytes: Buffer): SaslAuthenticateArgs<Buffer> => ({
  request: {
    encode() {
      const framed = Buffer.alloc(LENGTH_BYTES + bytes.length);
      framed.writeInt32BE(bytes.length);
      bytes.copy(framed, LENGTH_BYTES);
      return framed;
    },
  },
  response: { decode: (raw) => raw, parse: (raw) => raw.subarray(LENGTH_BYTES) },
});

/** kafkajs repeats what it does not know a dozen times: whether that helps is decided above it. */
async function told(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    throw Object.assign(new kafkajs.KafkaJSNonRetriableError(error.message), { cause: error });
  }
}
