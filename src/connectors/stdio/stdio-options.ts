// Pipeline options of standard input and standard output.
import type { Static } from 'typebox';
import { choice, closed, literal } from '../../config/options/describe-option.ts';
import { declaredOfBytes, totalsOfStreams } from '../../config/options/input-declarations.ts';
import { SCORING } from '../../config/options/scoring.ts';
import { Type } from '../../config/schema.ts';
import { FILE_FORMATS, STREAM_FORMATS } from '../../core/file-format.ts';

const delimiter = () => Type.Optional(SCORING.delimiter({ otherwise: 'comma' }));

const source = Type.Object(
  {
    type: literal('stdio'),
    format: choice('format of standard input', STREAM_FORMATS, { default: 'csv' }),
    compression: SCORING.compression('compression of standard input', { default: 'none' }),
    delimiter: delimiter(),
    ...declaredOfBytes(),
    ...totalsOfStreams(),
  },
  closed,
);

const sink = Type.Object(
  {
    type: literal('stdio'),
    format: choice('format of standard output', FILE_FORMATS, { default: 'ndjson' }),
    compression: SCORING.compression('compression of standard output', { default: 'none' }),
    delimiter: delimiter(),
  },
  closed,
);

export const STDIO_ENDS = { source, sink };

export type StdioSource = Static<typeof source>;
export type StdioSink = Static<typeof sink>;
