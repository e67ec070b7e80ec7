// The error for an exceeded limit, the same in every answer.
import { SluiceError } from './errors.ts';

export const tooMany = (limit: string, value: number, unit = limit): SluiceError =>
  new SluiceError('limit_exceeded', `more than ${value} ${unit} (limit ${limit})`, { extra: { limit, value, unit } });
