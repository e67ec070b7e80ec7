// The scopes that an API key can have.
export const SCOPES = ['predict', 'interpret', 'jobs', 'models:read', 'models:write', 'metrics'] as const;
export type Scope = (typeof SCOPES)[number];
