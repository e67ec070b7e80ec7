// Pipeline options of files and objects.
import type { Static } from 'typebox';
import { choice, closed, literal, text, whole } from '../../config/options/describe-option.ts';
import { declaredOfBytes, totalsOfFiles } from '../../config/options/input-declarations.ts';
import { SCORING } from '../../config/options/scoring.ts';
import { Type } from '../../config/schema.ts';
import { FILE_FORMATS } from '../../core/file-format.ts';

const BY_NAME = { otherwise: 'by the name of the file' };
const delimiter = () => Type.Optional(SCORING.delimiter({ otherwise: 'comma' }));
const fileFormat = () => Type.Optional(choice('format of the file', FILE_FORMATS, BY_NAME));
const fileCompression = () => Type.Optional(SCORING.compression('compression of the file', BY_NAME));

const source = Type.Object(
  {
    type: literal('file'),
    path: text('input file, or a pattern with * that matches several files'),
    format: fileFormat(),
    compression: fileCompression(),
    delimiter: delimiter(),
    ...declaredOfBytes(),
    ...totalsOfFiles(),
  },
  closed,
);

const sink = Type.Object(
  {
    type: literal('file'),
    path: text('output file; {name}: name of the input, {partition} and {offset}: where the file begins in the topic'),
    format: fileFormat(),
    compression: fileCompression(),
    delimiter: delimiter(),
    roll_rows: whole(
      'from a topic: rows after which a file is published; the micro-batch that exceeds them is in it',
      [1],
      { default: 100_000 },
    ),
    roll_ms: whole('from a topic: maximum time before a file is published', [1], { default: 60_000 }),
  },
  closed,
);

const deadLetter = Type.Object({ type: literal('file'), path: text('file that lists the rejected rows') }, closed);

export const FILE_ENDS = { source, sink, deadLetter };

export type FileSource = Static<typeof source>;
export type FileSink = Static<typeof sink>;
