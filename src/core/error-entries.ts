// What an error code is: whose fault, its HTTP status, whether a retry helps and what to do next. The codes are in errors.ts.

/** Whose fault an error is: it decides who is woken at night. */
export type Fault = 'input' | 'usage' | 'dependency' | 'overload' | 'bug';

export interface ErrorEntry {
  fault: Fault;
  /** HTTP status of the answer when this error ends a request. Row-level codes never end one by themselves. */
  status: number;
  retryable: boolean;
  /** true: marks one rejected application and never ends a run. */
  row?: true;
  summary: string;
  action: string;
}

export const input = (summary: string, action: string, status = 400): ErrorEntry => ({
  fault: 'input',
  status,
  retryable: false,
  summary,
  action,
});
export const row = (summary: string, action: string): ErrorEntry => ({ ...input(summary, action), row: true });
export const usage = (summary: string, action: string): ErrorEntry => ({ ...input(summary, action), fault: 'usage' });
export const conflict = (summary: string, action: string): ErrorEntry => ({ ...usage(summary, action), status: 409 });
export const dependency = (summary: string, action: string, status = 503): ErrorEntry => ({
  fault: 'dependency',
  status,
  retryable: true,
  summary,
  action,
});

export const bug = (summary: string, action: string, retryable = false): ErrorEntry => ({
  fault: 'bug',
  status: 500,
  retryable,
  summary,
  action,
});
