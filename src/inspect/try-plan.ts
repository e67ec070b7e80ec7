// Decodes the sample of an inspection in the same way as the command of a plan.
import type { InputFormat } from '../engine/stream-spec.ts';
import type { Source } from '../pipeline/pipeline-schema.ts';
import { endpoint, inputFormatOf } from '../runs/endpoint-specs.ts';
import { declarationOf, refuseContradictions } from '../runs/spec.ts';
import type { Conclusions } from './conclusions.ts';
import { declaringSource, type ReadingPlan } from './score-command.ts';
import { type Trial, trialDecode } from './trial-decode.ts';

/** Decodes the sample in the same way as the command of the plan. */
export function tryPlan({ sample, records }: Conclusions, plan: ReadingPlan): Trial {
  const source = { ...declaringSource(plan), ...(plan.names === null ? {} : { header: false }) };
  const format = plan.format;
  const end = endpoint('-', { format, delimiter: plan.delimiter, ...source }, 'csv');
  refuseContradictions({ type: 'file', path: plan.file, ...source } as Source, format, []);
  const declared = declarationOf(source);
  const input: InputFormat = { ...inputFormatOf(end), ...(declared ? { declared } : {}) };
  const isHeaderUnused = plan.names !== null && records.header !== null;
  const read = isHeaderUnused ? { ...records, header: null } : records;
  return trialDecode(sample.request.model, read, input, sample.typed);
}
