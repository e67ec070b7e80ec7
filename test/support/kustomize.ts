// What kustomize makes of a folder of k8s/.
import { execFileSync } from 'node:child_process';
import { parseAllDocuments } from 'yaml';
import type { Document } from './pod-policy.ts';
import { goProgram } from './tools.ts';

/** Folders that an operator applies. */
export const APPLIED = ['k8s/overlays/dev', 'k8s/overlays/prod', 'k8s/shards'] as const;

const texts = new Map<string, string>();

export function renderedText(folder: string): string {
  const known = texts.get(folder);
  if (known !== undefined) return known;
  const text = execFileSync(goProgram('kustomize'), ['build', folder], { encoding: 'utf8', maxBuffer: 1 << 26 });
  // Other folders are of a test, which may write to them again.
  if ((APPLIED as readonly string[]).includes(folder)) texts.set(folder, text);
  return text;
}

export function rendered(folder: string): Document[] {
  return parseAllDocuments(renderedText(folder)).map((d) => d.toJS());
}
