// Parses the limits of the gate from flags. A flag contains one number for all columns, or one number per column.
import { SluiceError } from '../core/errors.ts';
import type { GateLimits } from './options/gate-limits.ts';

const BY_COLUMN = ['maxMissing', 'maxUnseen', 'maxOutOfRange', 'maxPsi'] as const;
const KEYS = { maxMissing: 'max_missing', maxUnseen: 'max_unseen', maxOutOfRange: 'max_out_of_range', maxPsi: 'max_psi' } as const; // biome-ignore format: one line

/** Flags of `score` that set limits of the gate. */
interface GateSaid extends Partial<Record<(typeof BY_COLUMN)[number], string>> {
  maxRejects?: number;
  maxScorePsi?: number;
  minRows?: number;
}

/** Returns null if no limit is configured. @throws SluiceError usage */
export function gateSaid(flags: GateSaid): GateLimits | null {
  const limits: GateLimits = {
    ...(flags.maxRejects === undefined ? {} : { max_rejects: flags.maxRejects }),
    ...(flags.maxScorePsi === undefined ? {} : { max_score_psi: flags.maxScorePsi }),
    ...(flags.minRows === undefined ? {} : { min_rows: flags.minRows }),
  };
  for (const flag of BY_COLUMN) {
    const text = flags[flag];
    if (text !== undefined) limits[KEYS[flag]] = limitsIn(text, KEYS[flag]);
  }
  return Object.keys(limits).length > 0 ? limits : null;
}

function limitsIn(text: string, key: (typeof KEYS)[keyof typeof KEYS]): number | Record<string, number> {
  const flag = `--${key.replaceAll('_', '-')}`;
  const most = key === 'max_psi' ? Number.MAX_VALUE : 1;
  const number = (said: string): number => {
    const n = said.trim() === '' ? Number.NaN : Number(said);
    if (n >= 0 && n <= most) return n;
    const what = key === 'max_psi' ? 'a number from 0' : 'a share from 0 to 1';
    throw new SluiceError('usage', `${flag} takes ${what}, or column=limit,\u2026 with * for the other columns`);
  };
  if (!text.includes('=')) return number(text);
  const limits = new Map<string, number>();
  for (const part of text.split(',')) {
    const at = part.lastIndexOf('=');
    const column = part.slice(0, Math.max(0, at)).trim();
    if (column === '' || limits.has(column)) {
      const wrong = column === '' ? 'wants column=limit' : 'names a column twice';
      throw new SluiceError('usage', `${flag} ${wrong}`);
    }
    limits.set(column, number(part.slice(at + 1)));
  }
  return Object.fromEntries(limits);
}
