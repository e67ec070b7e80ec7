// Limits of the gate: how far an input may deviate from the training data. Beyond that, its output is not published.
import type { Static } from 'typebox';
import { Type } from '../schema.ts';
import { closed, whole } from './describe-option.ts';

const share = (description: string) => Type.Number({ minimum: 0, maximum: 1, description });
const amount = (description: string) => Type.Number({ minimum: 0, description });
const OF_COLUMNS = 'one limit for all columns, or limits by column with * for the others';

/** Limits per column, with the descriptions for flags and pipelines. */
const COLUMN_LIMITS = {
  max_missing: 'maximum share of missing values per column',
  max_unseen: 'maximum share of values that do not occur in the training data, per column',
  max_out_of_range: 'maximum share of numbers outside the range of the training data or package, per column',
  max_psi: 'largest population stability index of a column compared with the training data',
} as const;

const shareOfColumns = (description: string) =>
  Type.Union([share(description), Type.Record(Type.String(), share(description))], {
    description: `${description}: ${OF_COLUMNS}`,
  });
const psiOfColumns = (description: string) =>
  Type.Union([amount(description), Type.Record(Type.String(), amount(description))], {
    description: `${description}: ${OF_COLUMNS}`,
  });

const max_rejects = () =>
  Type.Number({
    minimum: 0,
    description: 'maximum rejected rows: a share of all rows if below 1, otherwise a number',
  });
const max_score_psi = () => amount('largest population stability index of the score compared with the training data');
const min_rows = () => whole('minimum rows of an input', [0, 1e12]);

export const GateSchema = Type.Object(
  {
    max_rejects: Type.Optional(max_rejects()),
    max_missing: Type.Optional(shareOfColumns(COLUMN_LIMITS.max_missing)),
    max_unseen: Type.Optional(shareOfColumns(COLUMN_LIMITS.max_unseen)),
    max_out_of_range: Type.Optional(shareOfColumns(COLUMN_LIMITS.max_out_of_range)),
    max_psi: Type.Optional(psiOfColumns(COLUMN_LIMITS.max_psi)),
    max_score_psi: Type.Optional(max_score_psi()),
    min_rows: Type.Optional(min_rows()),
  },
  { ...closed, description: 'limits that an input must meet to be published; from files and standard input to files' },
);

const columnsFlag = (description: string) => ({
  schema: Type.String({ minLength: 1, description: `${description}: 0.05, or by column a=0.05,*=0.01` }),
  value: 'limits',
});

/** The limits as flags. */
export const GATE_FLAGS = {
  max_rejects: { schema: max_rejects() },
  max_missing: columnsFlag(COLUMN_LIMITS.max_missing),
  max_unseen: columnsFlag(COLUMN_LIMITS.max_unseen),
  max_out_of_range: columnsFlag(COLUMN_LIMITS.max_out_of_range),
  max_psi: columnsFlag(COLUMN_LIMITS.max_psi),
  max_score_psi: { schema: max_score_psi() },
  min_rows: { schema: min_rows() },
} as const;

export type GateLimits = Static<typeof GateSchema>;
