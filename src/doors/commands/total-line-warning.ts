// Warns after a run if the last line of an input, which was scored as an application, looks like a total line.
import { type Log, named, words } from '../../core/log.ts';
import { isDelimited } from '../../formats/formats.ts';
import { type Endpoint, inputsOf } from '../../runs/endpoint-specs.ts';
import type { RunSpec } from '../../runs/spec.ts';

/** Maximum number of inputs whose last lines are checked. */
const MOST_FILES = 1000;

/** Checks only local files that are uncompressed and have no declared trailer. */
export async function warnOfTotalLines(spec: RunSpec, log: Log): Promise<void> {
  if (spec.source.type !== 'file' || spec.shard) return;
  const inputs = (await inputsOf(spec.source).catch(() => [])).filter(isExamined).slice(0, MOST_FILES);
  if (inputs.length === 0) return;
  const { scoredTotal } = await import('../../inspect/scored-total-line.ts');
  for (const { name, delimiter, declared, skipLines = 0 } of inputs) {
    // Never throws, because a failure must not change the result of a finished run.
    const why = await scoredTotal({
      ...{ name, delimiter, skipLines },
      encoding: declared?.encoding ?? 'utf-8',
      notation: declared?.texts ?? { decimal: 'point', thousands: null },
      hasHeader: (declared?.columns?.names ?? null) === null,
    });
    if (why === null) continue;
    const what = words`the last line of ${named(name)} was read as an application, but looks like a total line: ${named(why)}`;
    log('warn', 'total_line_scored', words`${what}; if it is one, declare its first field (--trailer, or trailer in a pipeline) or remove it`, { input: named(name) }); // biome-ignore format: one line
  }
}

const isExamined = ({ name, format, compression, totals }: Endpoint): boolean =>
  isDelimited(format) && compression === 'none' && !totals?.trailer && !/^[a-z]\w*:\/\//i.test(name);
