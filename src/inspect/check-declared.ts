// Checks the declarations in a request for an inspection.
// Finds contradictions, also to the columns of the model and the names in the file.
import { didYouMean } from '../core/did-you-mean.ts';
import { SluiceError } from '../core/errors.ts';
import { withoutBlanks } from '../core/input-declaration.ts';
import type { Source } from '../pipeline/pipeline-schema.ts';
import { refuseContradictions } from '../runs/spec.ts';
import type { InspectRequest } from './file-sample.ts';

/**
 * Checks the declarations before the file is read.
 * @throws SluiceError usage if declarations contradict each other or name columns that the model lacks
 */
export function refuseDeclared({ declared = {}, model, file }: InspectRequest): void {
  // A run requires that the decimal separator is declared together with a thousands separator. An inspection can find
  // the decimal separator.
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

/** Checks declared names of input columns. @throws SluiceError usage if the file lacks a declared name */
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
