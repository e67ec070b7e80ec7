// Options that declare the format of an input, and control totals that detect a truncated file. Sluice guesses neither.

import { DECIMALS, ENCODINGS, THOUSANDS } from '../../core/input-declaration.ts';
import { Type } from '../schema.ts';
import { choice, closed, type Door, maybe, text, whole } from './describe-option.ts';

/** Maximum number of lines to skip. The limit catches mistakes, because a preamble is shorter than the data. */
const MOST_SKIPPED = 100_000;

const name = () => Type.String({ minLength: 1 });

export const DECLARED = {
  rename: () =>
    Type.Record(Type.String(), name(), {
      description:
        'columns that have other names in the input: model column or passthrough column → its name in the input',
    }),
  ignore: () =>
    Type.Union([Type.Array(Type.String()), Type.Enum(['*'])], {
      description: 'input columns to ignore, by their names in the input; *: all unused ones',
    }),
  constants: () =>
    Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]), {
      description: 'values for model columns that the input lacks; a value applies to all rows',
    }),
  names: () =>
    Type.Array(Type.String(), {
      minItems: 1,
      description: 'with header: false: the names of the fields, in the order of the file',
    }),
  header: () => Type.Boolean({ description: 'false: the first row is data, and columns.names names the fields' }),
  skip_lines: (otherwise = '0') =>
    whole(
      'lines to skip before the header row, or before the first row of a file without a header row',
      [0, MOST_SKIPPED],
      {
        otherwise,
      },
    ),
  encoding: (door: Door<(typeof ENCODINGS)[number]> = {}) =>
    choice('encoding of the text; utf-16 needs a byte order mark', ENCODINGS, door),
  decimal: (door: Door<(typeof DECIMALS)[number]> = {}) =>
    choice('decimal separator of numbers in text', DECIMALS, door),
  thousands: (door: Door<(typeof THOUSANDS)[number]> = { otherwise: 'none' }) =>
    choice('thousands separator of numbers in text', THOUSANDS, door),
  trim: () => Type.Boolean({ description: 'trim spaces around values and column names' }),
  null_values: () =>
    Type.Array(Type.String(), {
      description: 'texts that mean a missing value, in addition to those of the model package',
    }),
} as const;

const columns = <T extends Parameters<typeof Type.Object>[0]>(properties: T) =>
  Type.Optional(Type.Object(properties, { ...closed, description: 'columns whose names differ from the model' }));

const named = {
  rename: Type.Optional(DECLARED.rename()),
  ignore: Type.Optional(DECLARED.ignore()),
  constants: Type.Optional(DECLARED.constants()),
};

const texts = {
  decimal: Type.Optional(DECLARED.decimal({ otherwise: 'point' })),
  thousands: Type.Optional(DECLARED.thousands()),
  trim: Type.Optional(DECLARED.trim()),
  null_values: Type.Optional(DECLARED.null_values()),
};

/** Keys of a source that reads separate records in UTF-8. */
export const declaredOfRecords = () => ({ columns: columns(named), ...texts });

/** Keys of a source that reads a byte stream. */
export const declaredOfBytes = () => ({
  header: Type.Optional(DECLARED.header()),
  skip_lines: Type.Optional(DECLARED.skip_lines()),
  columns: columns({ names: Type.Optional(DECLARED.names()), ...named }),
  encoding: Type.Optional(DECLARED.encoding({ otherwise: 'utf-8' })),
  ...texts,
});

// Control totals: row count, digest, control file, trailer record.

export const TOTALS = {
  rows: () => whole('required number of applications in the input', [0, 1e12]),
  sha256: () =>
    Type.String({
      pattern: '^[0-9A-Fa-f]{64}$',
      description: 'required SHA-256 of the stored input file, hexadecimal',
    }),
  control_file: () =>
    text(
      'control file with rows=N and sha256=HEX of the input, on separate lines or separated by semicolons; {path}: path of the input',
    ),
  trailer: () => text('first field of the last record, which is a trailer or total line and is not scored'),
} as const;

const expected = () =>
  Type.Optional(
    Type.Object(
      { rows: Type.Optional(TOTALS.rows()), sha256: Type.Optional(TOTALS.sha256()) },
      {
        ...closed,
        description: 'control totals: an input that does not match them is rejected before anything is published',
      },
    ),
  );

const control = () =>
  Type.Optional(
    Type.Object(
      {
        file: TOTALS.control_file(),
        rows_key: maybe('name of the row count in the control file', { otherwise: 'rows' }),
        sha256_key: maybe('name of the digest in the control file', { otherwise: 'sha256' }),
      },
      { ...closed, description: 'control totals of the input in a companion file' },
    ),
  );

const trailer = () =>
  Type.Optional(
    Type.Object(
      {
        marker: text('first field of the trailer'),
        rows_field: Type.Optional(
          whole('position of the field with the number of applications, from 1', [2, 1000], {
            otherwise: 'the number is not compared',
          }),
        ),
        extra_rows: Type.Optional(
          whole(
            'number of records that the count of the trailer includes in addition to applications, such as header row and trailer',
            [0, 10],
            {
              otherwise: '0',
            },
          ),
        ),
      },
      { ...closed, description: 'the last record of csv or tsv is a trailer or total line, which is not scored' },
    ),
  );

/** Keys of a source that reads files. */
export const totalsOfFiles = () => ({
  expect: expected(),
  control: control(),
  done_file: maybe('marker file that the sender writes when the input is complete; {path}: path of the input'),
  trailer: trailer(),
});

/** The options for control totals of a source that reads a single stream. */
export const totalsOfStreams = () => ({ expect: expected(), trailer: trailer() });

/** The options for control totals of a source that receives uploads. */
export const totalsOfUploads = () => ({ trailer: trailer() });
