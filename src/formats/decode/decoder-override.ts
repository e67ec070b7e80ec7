// SLUICE_DECODER=reference makes csv-parse and JSON.parse decode every stream without a kernel, to verify the fast path.
import { SluiceError } from '../../core/errors.ts';

const VARIABLE = 'SLUICE_DECODER';

let override: { decoder: 'reference' | null } | undefined;

/**
 * The decoder that all streams of this process must use; null: each stream chooses its own decoder. The environment
 * variable is read once per process; workers inherit it.
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
