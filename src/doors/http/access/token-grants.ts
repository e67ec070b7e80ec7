// What the claims of a token permit, as the configuration of its provider says.
import type { IssuerConfig } from '../../../config/oidc-options.ts';
import { SCOPES, type Scope } from '../../../config/scopes.ts';
import type { Grant } from './identity.ts';

type Claims = Readonly<Record<string, unknown>>;
type Mapping = Pick<IssuerConfig, 'scopes_claim' | 'models_claim' | 'roles_claim' | 'roles'>;

/** Words that are no scope and roles that are not configured permit nothing. */
export function grantsOf(claims: Claims, { scopes_claim, models_claim, roles_claim, roles }: Mapping): Grant[] {
  const grants: Grant[] = [];
  const scopes = wordsIn(claimAt(claims, scopes_claim)).filter((word) => (SCOPES as readonly string[]).includes(word));
  if (scopes.length > 0) grants.push({ scopes: scopes as Scope[], ...modelsOf(claims, models_claim) });
  if (roles_claim === undefined) return grants;
  const names = wordsIn(claimAt(claims, roles_claim)).filter((name) => Object.hasOwn(roles, name));
  return [...grants, ...names.map((name) => roles[name]!)];
}

function modelsOf(claims: Claims, claim: string | undefined): Pick<Grant, 'models'> {
  if (claim === undefined) return {};
  const models = wordsIn(claimAt(claims, claim));
  return models.includes('*') ? {} : { models };
}

/** The value of a claim by its name, or by its path where no claim has the name as a whole: names may be addresses. */
export function claimAt(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let at: unknown = claims;
  for (const step of name.split('.')) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, step)) return undefined;
    at = (at as Claims)[step];
  }
  return at;
}

/** Words between blanks (RFC 6749), or those of a list. */
const wordsIn = (value: unknown): string[] =>
  typeof value === 'string'
    ? value.split(' ').filter((word) => word !== '')
    : Array.isArray(value)
      ? value.filter((word) => typeof word === 'string')
      : [];
