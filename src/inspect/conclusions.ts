// The conclusions from a sample of a file. Questions and problems are derived from them.
import type { ColumnReader } from '../inference/encode/column-reader.ts';
import type { FileSample } from './file-sample.ts';
import type { NameMatch } from './match-names.ts';
import type { ReadingState } from './reading-plan.ts';
import type { SampledRecords, SampleTable } from './sample-records.ts';
import type { FoundTextRules } from './text-rules.ts';
import type { LinesAfterTable } from './total-line.ts';

export interface Conclusions {
  sample: FileSample;
  /** Names of the input columns, without the spaces that `trim` removes; null: the file has no header row. */
  names: readonly string[] | null;
  matches: readonly NameMatch[];
  /** For a file without a header row: the fields that can be the first column of the model; see `compatibleOffsets`. */
  offsets: readonly number[];
  misfit: ColumnReader | null;
  rules: FoundTextRules;
  after: LinesAfterTable | null;
  state: ReadingState;
  /** The records of the sample that the resulting command would read. */
  records: SampledRecords;
  table: SampleTable;
}
