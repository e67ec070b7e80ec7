// What an error may say to a client and to a log: nothing that came with the request, be it a path, a name or a value. Of header
// rows and records `io/decode/` takes care.
import { type ErrorCode, SluiceError } from '../../../core/errors.ts';

/** Messages of the registry name what was asked for; whoever asked knows. */
const MESSAGES: Partial<Record<ErrorCode, string>> = {
  model_not_found: 'there is no such model, version or alias',
};

/** The error without the names that a request asked for. */
export function withoutNames(error: SluiceError): SluiceError {
  const message = MESSAGES[error.code];
  return message === undefined ? error : new SluiceError(error.code, message, { cause: error });
}
