// SLUICE_DECODER=reference: every stream is read by csv-parse and JSON.parse, without a kernel, for anybody in doubt of the fast path.
import { SluiceError } from '../../core/errors.ts';

const VARIABLE = 'SLUICE_DECODER';

let override: { decoder: 'reference' | null } | undefined;

/**
 * The decoder that all streams of this process have to use; null: each uses what pays. The environment is read once a
 * process (workers inherit it).
 * @throws SluiceError usage
 */
export function decoderOverride(): 'reference' | null {
  override ??= { decoder: parse(process.env[VARIABLE]) };
  return override.decoder;
}

function parse(value = ''): 'reference' | null {
  if (value === 'reference') return value;
  if (value === '' || value === 'fast') return null;
  throw new SluiceError('usage', `${VARIABLE} is ${JSON.stringify(value)}; it can be fast (the default) or reference`);
}
