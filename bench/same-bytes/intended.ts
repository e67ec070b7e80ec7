// The one table of what may differ from the base on purpose. Everything else that differs is a finding.

export interface Intended {
  /** Of the name of the case. */
  cases: RegExp;
  /** Of the parts that may differ; default: all of them. */
  parts?: RegExp;
  why: string;
}

export const INTENDED: readonly Intended[] = [];
