// The plugin that applies the gate to each input of a run.
import { connectorOf } from '../../connectors/connectors.ts';
import { RunFindings, refuseVisible } from '../gate.ts';
import type { RunPlugin } from '../plugin.ts';

/** Judges every input before it is published, and collects findings for the report and the summary. */
export const gatePlugin: RunPlugin = {
  async plan({ spec, context, model, steps }) {
    const findings = context.findings ?? new RunFindings();
    findings.open(spec, model);
    if (spec.gate && connectorOf(spec.sink).capabilities.writes !== 'rows')
      await refuseVisible(steps.map(({ output }) => output?.name ?? null));
    if (!context.findings && !spec.gate) return null;
    return ({ input }) => {
      let isComplete = false;
      return {
        begin: () => findings.begin(),
        get state() {
          return findings.current;
        },
        beforeCommit: (counts) => findings.judge(input.name, counts),
        async scored() {
          isComplete = true;
          findings.complete();
        },
        published: async () => findings.published(),
        async failed() {
          // After `scored`, only the publication of the whole group can fail.
          if (isComplete) findings.discarded();
        },
      };
    };
  },
};
