// YAML files as values, with the places of what stands in them.
import { isCollection, isMap, isScalar, LineCounter, type Node, type Pair, parseDocument, stringify } from 'yaml';
import type { YamlProblem } from './yaml-problem.ts';

export interface YamlDocument {
  ok: true;
  value: unknown;
  /** A problem at an offset of the text. */
  at: (offset: number, message: string) => YamlProblem;
  /** A problem at the value under these keys, or at the innermost that is there; `ofKey`: at the last key itself. */
  atPath: (path: readonly string[], message: string, ofKey?: boolean) => YamlProblem;
}

export type ReadYaml = YamlDocument | { ok: false; problems: YamlProblem[] };

/**
 * YAML 1.2 core schema, duplicate keys refused, aliases bounded. Keys are the text that stands there: YAML writers leave
 * `008:` unquoted, and a category must not lose its zeros.
 */
export function readYaml(file: string, text: string): ReadYaml {
  const counter = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: counter,
    uniqueKeys: true,
    strict: true,
    stringKeys: true,
    merge: true,
  });
  const at = (offset: number, message: string): YamlProblem => {
    const { line, col } = counter.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col), message };
  };
  if (document.errors.length > 0) {
    return { ok: false, problems: document.errors.map((e) => at(e.pos[0], e.message.split('\n')[0] ?? e.message)) };
  }
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    return { ok: false, problems: [at(0, error instanceof Error ? error.message : String(error))] };
  }
  const contents = document.contents as Node | null;
  return {
    ok: true,
    value,
    at,
    atPath: (path, message, ofKey = false) => at(offsetOf(contents, path, ofKey), message),
  };
}

function offsetOf(node: Node | null, path: readonly string[], ofKey: boolean): number {
  let current = node;
  let offset = current?.range?.[0] ?? 0;
  for (const [depth, key] of path.entries()) {
    if (isMap(current)) {
      const pair = (current.items as Pair[]).find((p) => String(isScalar(p.key) ? p.key.value : p.key) === key);
      if (!pair) return offset;
      const keyNode = pair.key as Node | null;
      if (ofKey && depth === path.length - 1) return keyNode?.range?.[0] ?? offset;
      current = pair.value as Node | null;
      offset = current?.range?.[0] ?? keyNode?.range?.[0] ?? offset;
    } else if (isCollection(current)) {
      current = current.items[Number(key)] as Node | null;
      offset = current?.range?.[0] ?? offset;
    } else return offset;
  }
  return offset;
}

/** A value as YAML that `readYaml` reads back: texts that look like numbers or words are quoted, small maps stay on a line. */
export function formatYaml(value: unknown): string {
  return stringify(value, { lineWidth: 0, defaultStringType: 'PLAIN', aliasDuplicateObjects: false });
}
