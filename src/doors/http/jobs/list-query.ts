// What the list of jobs can be asked for.
import { SluiceError } from '../../../core/errors.ts';
import { JOB_STATES, type JobPage, type JobState } from './job-store.ts';

export interface ListQuery {
  state?: JobState;
  limit?: number;
  after?: string;
}

/** Query of the list of jobs, as JSON Schema. */
export const LIST_QUERY = {
  type: 'object',
  additionalProperties: false,
  properties: {
    state: { enum: [...JOB_STATES], description: 'only those' },
    limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100, description: 'so many of them' },
    after: { type: 'string', description: '`next` of the page before' },
  },
} as const;

/** The page that a query asks for. @throws SluiceError bad_request */
export function pageOf({ state, limit, after }: ListQuery): JobPage {
  const [, created, id] = /^(\d{1,15})\.([0-9a-f-]{36})$/.exec(after ?? '') ?? [];
  if (after !== undefined && id === undefined)
    throw new SluiceError('bad_request', 'after: is `next` of a list of jobs');
  return {
    state: state ?? null,
    limit: limit ?? 100,
    after: id === undefined ? null : { id, created: Number(created) },
  };
}
