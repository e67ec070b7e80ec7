// Pipeline options of uploads to the service.
import type { Static } from 'typebox';
import { choice, closed, literal } from '../../config/options/describe-option.ts';
import { declaredOfBytes, totalsOfUploads } from '../../config/options/input-declarations.ts';
import { SCORING } from '../../config/options/scoring.ts';
import { Type } from '../../config/schema.ts';
import { TEXT_FORMATS } from '../../core/file-format.ts';

const delimiter = () => Type.Optional(SCORING.delimiter({ otherwise: 'comma' }));

const source = Type.Object(
  {
    type: literal('upload'),
    format: choice('format of the request bodies', TEXT_FORMATS, { default: 'csv' }),
    delimiter: delimiter(),
    ...declaredOfBytes(),
    ...totalsOfUploads(),
  },
  closed,
);

export const UPLOAD_ENDS = { source };

export type UploadSource = Static<typeof source>;
