// What an error may say to a client and to a log: nothing that came with the request, be it a path, a name or a value.
import { type ErrorCode, type ErrorDetail, SluiceError } from '../../../core/errors.ts';
import type { Manifest } from '../../../model/package/manifest.ts';

/** Messages of the registry name what was asked for; whoever asked knows. */
const MESSAGES: Partial<Record<ErrorCode, string>> = {
  model_not_found: 'there is no such model, version or alias',
};

/** The error without the names that a request asked for. */
export function withoutNames(error: SluiceError): SluiceError {
  const message = MESSAGES[error.code];
  return message === undefined ? error : new SluiceError(error.code, message, { cause: error });
}

const HEADER_WORDS: Partial<Record<ErrorCode, string>> = {
  duplicate_column: 'a column outside the model is there twice',
  unexpected_column: 'a column is not one of the model; name it in passthrough to echo it',
  missing_column: 'a passthrough column is not in the header',
};

/**
 * A fault of a header row as the client may see it. A cell of it is a value until it is the name of a column of the model: the first
 * row of a file without a header is an applicant.
 */
export function withoutCells(error: unknown, manifest: Manifest): unknown {
  if (!(error instanceof SluiceError) || error.code !== 'header_mismatch' || error.details.length === 0) return error;
  const known = new Set([...manifest.columns.map((c) => c.name), manifest.outcome]);
  const details = error.details.map((d): ErrorDetail => {
    if (d.column === undefined || known.has(d.column)) return d;
    return { code: d.code, message: HEADER_WORDS[d.code] ?? 'a column does not fit the model' };
  });
  const words = [...new Set(details.map((d) => d.message))].join('; ');
  return new SluiceError(error.code, words, { cause: error, details, extra: { ...error.extra } });
}
