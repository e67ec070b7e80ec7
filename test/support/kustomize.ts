// What kustomize makes of a folder of k8s/.
import { execFileSync } from 'node:child_process';
import { parseAllDocuments } from 'yaml';
import type { Document } from './pod-policy.ts';
import { goProgram } from './tools.ts';

/** Folders that an operator applies. */
export const APPLIED = ['k8s/overlays/dev', 'k8s/overlays/prod', 'k8s/shards'] as const;

export function renderedText(folder: string): string {
  return execFileSync(goProgram('kustomize'), ['build', folder], { encoding: 'utf8', maxBuffer: 1 << 26 });
}

export function rendered(folder: string): Document[] {
  return parseAllDocuments(renderedText(folder)).map((d) => d.toJS());
}
