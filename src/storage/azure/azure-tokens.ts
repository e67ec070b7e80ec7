// Access tokens of Microsoft Entra ID, for a workload identity, a client secret, or the managed identity of the machine.
// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
import { readFile } from 'node:fs/promises';
import { epochMs } from '../../core/clock.ts';
import { HttpClient, unavailable } from '../http-client.ts';

/** Returns a valid access token. @throws SluiceError storage_unavailable */
export type TokenSource = () => Promise<string>;

const SCOPE = 'https://storage.azure.com/.default';
const ASSERTION = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
/** Time before its expiry at which a token is renewed, ms. */
const MARGIN_MS = 5 * 60_000;
const TIMEOUT_MS = 10_000;
const NAME = 'the identity of az://';

export function accessTokens(env: NodeJS.ProcessEnv): TokenSource {
  let known: { token: string; until: number } | null = null;
  let pending: Promise<{ token: string; until: number }> | null = null;
  return async () => {
    if (known && epochMs() < known.until - MARGIN_MS) return known.token;
    pending ??= requestToken(env).finally(() => {
      pending = null;
    });
    known = await pending;
    return known.token;
  };
}

async function requestToken(env: NodeJS.ProcessEnv): Promise<{ token: string; until: number }> {
  const { AZURE_TENANT_ID: tenant, AZURE_CLIENT_ID: client, AZURE_CLIENT_SECRET: secret } = env;
  const { AZURE_FEDERATED_TOKEN_FILE: file, AZURE_AUTHORITY_HOST: host = 'https://login.microsoftonline.com/' } = env;
  let url: URL;
  let form: URLSearchParams | null = null;
  if (tenant && client && (secret || file)) {
    url = new URL(`${tenant}/oauth2/v2.0/token`, host.endsWith('/') ? host : `${host}/`);
    form = new URLSearchParams({ grant_type: 'client_credentials', client_id: client, scope: SCOPE });
    if (secret) form.set('client_secret', secret);
    else {
      form.set('client_assertion_type', ASSERTION);
      form.set('client_assertion', (await readFile(file!, 'utf8')).trim());
    }
  } else {
    url = new URL('/metadata/identity/oauth2/token', env.AZURE_POD_IDENTITY_AUTHORITY_HOST ?? 'http://169.254.169.254');
    const query = { 'api-version': '2018-02-01', resource: 'https://storage.azure.com/', ...(client ? { client_id: client } : {}) }; // biome-ignore format: one line
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  }
  const http = new HttpClient(url.protocol === 'https:', { name: NAME, code: 'storage_unavailable', timeoutMs: TIMEOUT_MS, retries: 2 }); // biome-ignore format: one line
  try {
    const reply = await http.text(
      form
        ? {
            method: 'POST',
            url,
            headers: { 'content-type': 'application/x-www-form-urlencoded' },
            body: Buffer.from(String(form)),
          }
        : { method: 'GET', url, headers: { metadata: 'true' } },
    );
    const found = reply.status === 200 ? (JSON.parse(reply.text) as { access_token?: string; expires_in?: number | string }) : {}; // biome-ignore format: one line
    // The message omits the response, because the response to a rejected request may contain the secret.
    if (!found.access_token) throw unavailable(NAME, `it answered ${reply.status} without a token`, undefined, 'storage_unavailable'); // biome-ignore format: one line
    return { token: found.access_token, until: epochMs() + Number(found.expires_in ?? 3600) * 1000 };
  } finally {
    http.close();
  }
}
