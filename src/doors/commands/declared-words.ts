// Turns flags that declare an input's format into keys of a pipeline.

import type { UploadSource } from '../../connectors/upload/upload-options.ts';
import { SluiceError } from '../../core/errors.ts';
import type { ScoreFlags } from './flags/score-flags.ts';

type DeclaredFlags = Pick<
  ScoreFlags,
  | 'skipLines'
  | 'columns'
  | 'rename'
  | 'ignore'
  | 'constants'
  | 'encoding'
  | 'decimal'
  | 'thousands'
  | 'trim'
  | 'nullValues'
>;
type Said = Pick<
  UploadSource,
  'header' | 'skip_lines' | 'columns' | 'encoding' | 'decimal' | 'thousands' | 'trim' | 'null_values'
>;

/** @throws SluiceError usage: a pair without an equals sign, or a duplicate column */
export function declaredSaid(flags: DeclaredFlags): Said {
  const { skipLines, encoding, decimal, thousands, trim, nullValues } = flags;
  const columns = {
    ...(flags.columns === undefined ? {} : { names: flags.columns.split(',') }),
    ...(flags.rename === undefined ? {} : { rename: pairs('--rename', flags.rename) }),
    ...(flags.ignore === undefined ? {} : { ignore: flags.ignore === '*' ? ('*' as const) : flags.ignore.split(',') }),
    ...(flags.constants === undefined ? {} : { constants: pairs('--constants', flags.constants) }),
  };
  return {
    ...(flags.columns === undefined ? {} : { header: false }),
    ...(skipLines === undefined ? {} : { skip_lines: skipLines }),
    ...(Object.keys(columns).length === 0 ? {} : { columns }),
    ...(encoding === undefined ? {} : { encoding }),
    ...(decimal === undefined ? {} : { decimal }),
    ...(thousands === undefined ? {} : { thousands }),
    ...(trim ? { trim } : {}),
    ...(nullValues === undefined ? {} : { null_values: nullValues.split(',') }),
  };
}

/** Parses `a=b,c=d`. A value may contain equals signs. */
function pairs(flag: string, text: string): Record<string, string> {
  const found = new Map<string, string>();
  for (const pair of text.split(',')) {
    const at = pair.indexOf('=');
    const name = pair.slice(0, Math.max(at, 0));
    if (name === '') throw new SluiceError('usage', `${flag} takes pairs column=value, separated by commas`);
    if (found.has(name)) throw new SluiceError('usage', `${flag} names ${name} twice`);
    found.set(name, pair.slice(at + 1));
  }
  return Object.fromEntries(found);
}
