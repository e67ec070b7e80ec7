// What an API key may be allowed to do.
export const SCOPES = ['predict', 'interpret', 'jobs', 'models:read', 'models:write', 'metrics'] as const;
export type Scope = (typeof SCOPES)[number];
