// Checks what the caller of an inspection declares: against itself, the columns of the model and the names in the file.
import { didYouMean } from '../core/did-you-mean.ts';
import { SluiceError } from '../core/errors.ts';
import { withoutBlanks } from '../core/input-declaration.ts';
import type { Source } from '../pipeline/pipeline-schema.ts';
import { refuseContradictions } from '../runs/spec.ts';
import type { InspectRequest } from './file-sample.ts';

/** @throws SluiceError usage: contradictory declarations, or declarations about columns that the model lacks */
export function refuseDeclared({ declared = {}, model, file }: InspectRequest): void {
  // Unlike a run, an inspection finds the decimal mark that a thousands separator leaves open.
  const decimal = declared.decimal ?? (declared.thousands === 'point' ? 'comma' : undefined);
  const header = declared.columns?.names === undefined ? {} : { header: false };
  const source = { ...declared, ...header, ...(decimal === undefined ? {} : { decimal }) };
  refuseContradictions({ type: 'file', path: file, ...source } as Source, null, []);
  const known = new Set(model.manifest.columns.map(({ name }) => name));
  for (const flag of ['rename', 'constants'] as const) {
    const foreign = Object.keys(declared.columns?.[flag] ?? {}).find((name) => !known.has(name));
    if (foreign !== undefined) throw new SluiceError('usage', `${flag}: ${foreign} is not a column of the model`);
  }
}

/** @throws SluiceError usage: a declared name that the file lacks */
export function refuseUnknownNames({ declared = {} }: InspectRequest, names: readonly string[]): void {
  const there = new Set([...names, ...names.map(withoutBlanks)]);
  const { rename = {}, ignore = [] } = declared.columns ?? {};
  const refuse = (flag: string, wanted: readonly string[]) => {
    const unknown = wanted.find((name) => !there.has(name));
    if (unknown === undefined) return;
    throw new SluiceError('usage', `${flag}: the file has no column ${unknown}${didYouMean(unknown, names)}`);
  };
  refuse('rename', Object.values(rename));
  refuse('ignore', ignore === '*' ? [] : ignore);
}
