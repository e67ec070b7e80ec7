// An interpretation as both formats write it: values as given, effects by size.
import { type ColumnData, MISSING, UNSEEN } from '../../core/batch.ts';
import { FAILED, INEXACT } from '../../inference/explain/explainer.ts';
import type { BatchInterpretation } from '../../inference/explain/interpretation.ts';
import { categoriesOf } from '../../model/package/category-files.ts';
import type { ColumnSpec } from '../../model/package/manifest.ts';

const INEXACT_FAULT = {
  code: 'interpretation_inexact',
  message: 'base and effects do not add up to the prediction',
};
const FAILED_FAULT = {
  code: 'interpretation_failed',
  message: 'computing the interpretation failed or took too long',
};

/** Why a scored row has no interpretation although one was requested, by its `at`; null: it has one, or none was requested. */
export const interpretationFault = (at: number): { code: string; message: string } | null =>
  at === INEXACT ? INEXACT_FAULT : at === FAILED ? FAILED_FAULT : null;

/** The value of row `r` in native types; null: missing. */
export function applicationValue(spec: ColumnSpec, data: ColumnData, r: number): string | number | boolean | null {
  if (data.kind === 'number') {
    const v = data.numbers[r]!;
    return Number.isNaN(v) ? null : v;
  }
  if (data.kind === 'text') return data.texts[r] ?? null;
  const code = data.codes[r]!;
  if (code === MISSING) return null;
  if (data.kind === 'boolean') return code === 1;
  if (code === UNSEEN) return data.texts[r] ?? null;
  return categoriesOf(spec)?.values[code] ?? null;
}

/** Columns by the size of their effect, largest first; equal ones in the order of the package. `from`: first effect of the row and output. */
export function bySize(interpretation: BatchInterpretation, from: number, columns: number): number[] {
  const { effects, spec } = interpretation;
  const order = Array.from({ length: columns }, (_, c) => c);
  order.sort((a, b) => Math.abs(effects[from + b]!) - Math.abs(effects[from + a]!) || a - b);
  return spec.top === null ? order : order.slice(0, spec.top);
}
