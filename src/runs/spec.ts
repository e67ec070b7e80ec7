// What a pipeline asks of the engine, from the words of its file.
import type { Pipeline } from '../config/pipeline-config.ts';
import type { InterpretationSpec } from '../inference/explain/interpretation.ts';

export function interpretationOf({ score }: Pipeline): InterpretationSpec | null {
  if (score.interpretation === 'none') return null;
  return {
    effects: score.interpretation === 'effects',
    reasons: true,
    top: score.top_effects ?? null,
    below: score.interpret_below ?? null,
  };
}
