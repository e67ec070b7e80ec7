// What `serve` is told of an identity provider whose tokens it takes.
import { type Static, Type } from 'typebox';
import { closed, maybe, text, whole } from './options/describe-option.ts';
import { SCOPES, type Scope } from './scopes.ts';

/** Signatures that a public key checks: with a secret, whoever checks could sign, too. */
const SIGNATURE_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] as const;

const scopes = Type.Array(Type.Unsafe<Scope>(Type.Enum([...SCOPES])), { description: 'what it permits' });
const models = Type.Optional(Type.Array(Type.String(), { description: 'ids of models it is for; default: all' }));

export const IssuerSchema = Type.Object(
  {
    name: Type.String({
      pattern: '^[a-z0-9][a-z0-9-]{0,39}$',
      description: 'short name of the provider, in the log, in metrics and in the names of its subjects',
    }),
    issuer: text('what `iss` of its tokens says, to the letter: an address with https'),
    audience: Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      description: 'what `aud` of a token has to hold one of: the name under which the provider knows this service',
    }),
    jwks_url: maybe('address of its keys', { otherwise: 'jwks_uri of ISSUER/.well-known/openid-configuration' }),
    ca: maybe('PEM file with the authorities that its server is trusted by', { otherwise: 'those of Node' }),
    algorithms: Type.Array(Type.Unsafe<(typeof SIGNATURE_ALGORITHMS)[number]>(Type.Enum([...SIGNATURE_ALGORITHMS])), {
      minItems: 1,
      default: ['RS256', 'PS256', 'ES256', 'EdDSA'],
      description: 'signatures that are taken',
    }),
    token_type: text(
      'what `typ` of a token has to be; at+jwt marks access tokens (RFC 9068); any: whatever it is, and tokens whose claims show an ID token are refused',
      { default: 'at+jwt' },
    ),
    clock_tolerance_ms: whole('how far the clocks may be apart', [0, 600_000], { default: 30_000 }),
    subject_claim: text('claim with the name of the caller, by which jobs and quotas go; stands in the audit log', {
      default: 'sub',
    }),
    scopes_claim: text('claim with scopes, as words between blanks or as a list; a path such as a.b goes inside', {
      default: 'scope',
    }),
    models_claim: maybe('claim with the ids of the models that those scopes are for, * for all; without it: none', {
      otherwise: 'all models',
    }),
    roles_claim: maybe('claim with roles or groups, such as realm_access.roles', { otherwise: 'no roles' }),
    roles: Type.Record(Type.String(), Type.Object({ scopes, models }, closed), {
      default: {},
      description: 'what a role permits; the rest of roles_claim means nothing',
    }),
    keys_refresh_ms: whole(
      'its keys are read again after this; so long a key that it withdraws is still taken',
      [1000],
      {
        default: 300_000,
      },
    ),
    keys_cooldown_ms: whole('unknown keys have them read again at most this often', [100], { default: 30_000 }),
    keys_max_age_ms: whole('while the provider is away, its last keys are taken for this long; then 503', [1000], {
      default: 4 * 3_600_000,
    }),
  },
  closed,
);

export type IssuerConfig = Static<typeof IssuerSchema>;
