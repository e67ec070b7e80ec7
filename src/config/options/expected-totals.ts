// What the sender of a file says of it, so that one that was cut is refused: rows, a digest, a file beside it, a last record.
import { Type } from 'typebox';
import { closed, maybe, text, whole } from './describe-option.ts';

export const TOTALS = {
  rows: () => whole('applications that the input has to have', [0, 1e12]),
  sha256: () =>
    Type.String({
      pattern: '^[0-9A-Fa-f]{64}$',
      description: 'SHA-256 that the input as it is stored has to have, hexadecimal',
    }),
  control_file: () =>
    text(
      'file that says rows=N and sha256=HEX of the input, in lines or separated by semicolons; {path}: that of the input',
    ),
} as const;

const expected = () =>
  Type.Optional(
    Type.Object(
      { rows: Type.Optional(TOTALS.rows()), sha256: Type.Optional(TOTALS.sha256()) },
      { ...closed, description: 'totals of the input: one without them is refused before anything is published' },
    ),
  );

const control = () =>
  Type.Optional(
    Type.Object(
      {
        file: TOTALS.control_file(),
        rows_key: maybe('its word for the number of applications', { otherwise: 'rows' }),
        sha256_key: maybe('its word for the digest', { otherwise: 'sha256' }),
      },
      { ...closed, description: 'totals of the input in a file that comes with it' },
    ),
  );

const trailer = () =>
  Type.Optional(
    Type.Object(
      {
        marker: text('first field of the trailer'),
        rows_field: whole('its field with the number of applications, from 1', [2, 1000]),
        extra_rows: Type.Optional(
          whole('records that this number counts besides applications: header row, trailer', [0, 10], {
            otherwise: '0',
          }),
        ),
      },
      { ...closed, description: 'the last record of csv or tsv is no application but says how many there are' },
    ),
  );

/** Keys of a source of files. */
export const totalsOfFiles = () => ({
  expect: expected(),
  control: control(),
  done_file: maybe(
    'file that has to be there, because the sender leaves it when the input is whole; {path}: that of the input',
  ),
  trailer: trailer(),
});

/** Keys of a source of one stream. */
export const totalsOfStreams = () => ({ expect: expected(), trailer: trailer() });

/** Keys of a source of uploads. */
export const totalsOfUploads = () => ({ trailer: trailer() });
