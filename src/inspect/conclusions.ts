// Conclusions from a sample of a file, from which questions and problems are derived.
import type { ColumnReader } from '../inference/encode/column-reader.ts';
import type { FileSample } from './file-sample.ts';
import type { NameMatch } from './match-names.ts';
import type { ReadingState } from './reading-plan.ts';
import type { SampledRecords, SampleTable } from './sample-records.ts';
import type { FoundTextRules } from './text-rules.ts';
import type { LinesAfterTable } from './total-line.ts';

export interface Conclusions {
  sample: FileSample;
  /** Names without the spaces that `trim` removes; null: no header row. */
  names: readonly string[] | null;
  matches: readonly NameMatch[];
  /** For a file without a header row: the offsets at which the columns of the model fit. */
  offsets: readonly number[];
  misfit: ColumnReader | null;
  rules: FoundTextRules;
  after: LinesAfterTable | null;
  state: ReadingState;
  /** The records of the sample that the command would read. */
  records: SampledRecords;
  table: SampleTable;
}
