// Flags that declare what an input is, of the commands that read one.
import { Type } from 'typebox';
import { DECLARED } from '../options/declared-input.ts';
import type { FlagSpec } from './command-spec.ts';

const listed = (description: string) => Type.String({ minLength: 1, description });

export const DECLARED_FLAGS = {
  columns: { schema: listed('the input has no header row; its fields in their order: a,b,c'), value: 'names' },
  rename: { schema: listed('columns that the input calls otherwise: column=name there, …'), value: 'pairs' },
  ignore: { schema: listed('columns of the input that nobody looks at: a,b, or * for all that are not used') },
  constants: {
    schema: listed('columns of the model that the input does not have: column=value for all rows, …'),
    value: 'pairs',
  },
  encoding: { schema: DECLARED.encoding({ otherwise: 'utf-8' }) },
  decimal: { schema: DECLARED.decimal({ otherwise: 'point' }), value: 'mark' },
  thousands: { schema: DECLARED.thousands(), value: 'mark' },
  trim: { schema: DECLARED.trim() },
  null_values: {
    schema: listed('words for missing values, besides those of the model package: NULL,N/A'),
    value: 'words',
  },
} as const satisfies Readonly<Record<string, FlagSpec>>;
