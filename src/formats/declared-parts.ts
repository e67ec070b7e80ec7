// Converts the declaration of an input into options of a decoder, and checks the declaration.
import type { InputDeclaration, TextRules } from '../core/input-declaration.ts';
import { columnReaders } from '../inference/encode/column-reader.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { DeclaredParts } from './choose-decoder.ts';
import { readConstants } from './decode/constant-columns.ts';
import { checkDeclared } from './decode/input-names.ts';

/** The decoder options that a declaration defines; empty without a declaration. */
export function declaredParts(declared: InputDeclaration | undefined): DeclaredParts {
  const texts: TextRules | null = declared?.texts ?? null;
  const constants = declared?.columns?.constants ?? {};
  return {
    ...(texts === null ? {} : { texts }),
    ...(Object.keys(constants).length === 0 ? {} : { constants }),
  };
}

/**
 * Rejects declarations that contradict themselves or the model, before reading starts.
 * @throws SluiceError usage
 */
export function checkDeclaration(
  { columns, texts }: InputDeclaration,
  manifest: Manifest,
  passthrough: readonly string[] | '*',
): void {
  if (columns === null) return;
  const readers = columnReaders(manifest, texts);
  checkDeclared(columns, readers, passthrough);
  readConstants(readers, columns.constants);
}
